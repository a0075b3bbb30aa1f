/** A policy as lines for people; all of it is in the JSON beside. What cannot be read here is left to that. */

export type Rule = { readonly name: string; readonly when: string; readonly then: string; readonly asks: string; readonly why: string }

type Words = Readonly<Record<string, unknown>>

const SIGNS: Readonly<Record<string, string>> = { eq: '=', ne: '≠', gt: '>', gte: '≥', lt: '<', lte: '≤', in: 'in', matches: 'matches' }

const isWords = (value: unknown): value is Words => typeof value === 'object' && value !== null && !Array.isArray(value)
const text = (value: unknown) => (typeof value === 'string' ? value : '')
const plain = (value: unknown): string => (Array.isArray(value) ? value.map(plain).join(' or ') : typeof value === 'string' ? value : JSON.stringify(value))

/** Gives a policy's rules in the order in which they are asked: the first that applies decides. */
export function rulesOf(content: unknown): Rule[] {
  const rules = isWords(content) && Array.isArray(content.rules) ? content.rules : []
  const usual = isWords(content) && isWords(content.approvals) ? content.approvals : {}
  return rules.filter(isWords).map((rule) => ({
    name: text(rule.name),
    when: isWords(rule.match) && Object.keys(rule.match).length > 0 ? conditions(rule.match) : 'every call',
    then: text(rule.then),
    asks: rule.then === 'ask' ? asked(usual, isWords(rule.approvals) ? rule.approvals : {}) : '',
    why: text(rule.why),
  }))
}

function conditions(match: Words): string {
  return Object.entries(match)
    .sort(([one], [other]) => Number(one === 'args') - Number(other === 'args')) // which tool it is comes first
    .flatMap(([name, value]) => (name === 'args' && isWords(value) ? Object.entries(value).flatMap(([path, test]) => tests(path, test)) : [`${name.replaceAll('_', ' ')} ${plain(value)}`]))
    .join(' and ')
}

function tests(path: string, test: unknown): string[] {
  if (!isWords(test)) return [`${path} = ${plain(test)}`]
  return Object.entries(test).map(([name, value]) => {
    if (name === 'exists') return `${path} is ${value === true ? '' : 'not '}there`
    if (name === 'length') return tests(`length of ${path}`, value).join(' and ')
    return `${path} ${SIGNS[name] ?? name} ${plain(value)}`
  })
}

/** Says who is asked: what a rule does not say, the policy says for all of them. */
function asked({ needs: usualNeeds, quorum: usualQuorum, ...usual }: Words, own: Words): string {
  const saysWho = 'needs' in own || 'quorum' in own
  const approvals: Words = { ...usual, ...(!saysWho && { needs: usualNeeds, quorum: usualQuorum }), ...own }
  const needs = Array.isArray(approvals.needs) ? approvals.needs.filter(isWords).map((need) => `${plain(need.count ?? 1)} of ${text(need.role) || 'anybody'}`) : []
  const people = needs.length > 0 ? needs.join(' and ') : approvals.quorum ? `${plain(approvals.quorum)} people` : 'one person'
  return [people, approvals.signed === true && 'signed', approvals.expires && `within ${plain(approvals.expires)}`].filter(Boolean).join(', ')
}
