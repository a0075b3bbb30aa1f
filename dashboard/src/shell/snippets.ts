/** The lines that put the ledger around an agent, for each framework; the manual has a page for each. */

export type Snippet = { readonly name: string; readonly install: string; readonly code: string; readonly says: string }

const OPEN = 'ledger = Ledger.open()  # .indelible/ledger.db, or $INDELIBLE_URL'
const TERMS = 'terms={"refund": {"approval": "required"}}'

export const SNIPPETS: readonly Snippet[] = [
  {
    name: 'Plain Python',
    install: 'pip install indelible',
    code: `from indelible import Ledger\n\n${OPEN}\n\n@ledger.tool(side_effect="payment", approval="required")\ndef refund(charge: str, amount: int): ...`,
    says: 'Calls inside `with ledger.start_run("order-123", agent="billing")` belong to that run; functions may be async.',
  },
  {
    name: 'LangGraph',
    install: "pip install 'indelible[langchain]'",
    code: `from langchain.agents import create_agent\n\nfrom indelible import Ledger\nfrom indelible.integrations.langchain import LedgerMiddleware\n\n${OPEN}\nbehind = LedgerMiddleware(ledger, ${TERMS})\nagent = create_agent(model, [charge, refund], checkpointer=saver, middleware=[behind])`,
    says: 'It belongs last in the list of middleware. A graph pauses while a person has to decide.',
  },
  {
    name: 'OpenAI Agents',
    install: "pip install 'indelible[openai-agents]'",
    code: `from agents import Agent\n\nfrom indelible import Ledger\nfrom indelible.integrations.openai_agents import LedgerTools\n\n${OPEN}\ngate = LedgerTools(\n    ledger, run="order-123", ${TERMS}\n)\nagent = Agent(name="billing", model=model, tools=gate.tools([charge, refund]))`,
    says: 'Name the run yourself: the SDK has no id that outlives a saved state.',
  },
  {
    name: 'Pydantic AI',
    install: "pip install 'indelible[pydantic-ai]'",
    code: `from pydantic_ai import Agent, DeferredToolRequests\n\nfrom indelible import Ledger\nfrom indelible.integrations.pydantic_ai import LedgerCapability\n\n${OPEN}\nbehind = LedgerCapability(ledger, ${TERMS})\nagent = Agent(\n    model, tools=[charge, refund], capabilities=[behind], output_type=[str, DeferredToolRequests]\n)`,
    says: 'Run the agent with a conversation_id: it stays the same when the agent is resumed.',
  },
  {
    name: 'CrewAI',
    install: 'pip install indelible crewai',
    code: `from crewai import Agent\n\nfrom indelible import Ledger\nfrom indelible.integrations.crewai import LedgerTools\n\n${OPEN}\ngate = LedgerTools(\n    ledger, run="order-123", ${TERMS}\n)\nagent = Agent(role="billing", goal="…", backstory="…", llm=llm, tools=gate.tools([charge, refund]))`,
    says: 'Within a run, the same tool with the same arguments is the same call.',
  },
  {
    name: 'MCP',
    install: "pip install 'indelible[mcp,cli]'",
    code: 'indelible mcp proxy --run order-123 --terms tools.toml -- npx @example/payments-mcp',
    says: 'Put this where your client starts the server: its tools go through the ledger, and all else is handed through.',
  },
]
