import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState, type ReactNode } from 'react'
import { me } from '../../api/asks'
import { api, HOME, told } from '../../api/client'
import { useMay, type Scope } from '../../api/may'
import type { components } from '../../api/schema'
import { Acting, AskedLine, useOpen } from '../../parts/Acting'
import { Button } from '../../parts/Button'
import { Chips } from '../../parts/Chips'
import { Copy, Id } from '../../parts/Copy'
import { Dialog } from '../../parts/Dialog'
import { Fact, Facts, Section } from '../../parts/Fact'
import { Text } from '../../parts/Text'
import { useTitle } from '../../parts/title'
import { many } from '../../parts/time'
import { Trouble } from '../../parts/Trouble'
import { When } from '../../parts/When'
import { change, useSettings, type Theme } from '../../shell/settings'
import { Brake } from './Brake'
import { Forgetting } from './Forgetting'

const THEMES: readonly Theme[] = ['system', 'light', 'dark']

/** Shows who one is here, how the page looks, who else may come in, the brake, and how to forget. */
export function Settings() {
  useTitle('Settings')
  const isAdmin = useMay([])
  return (
    <div className="mx-auto max-w-5xl space-y-8 p-5">
      <h1 className="text-xl font-semibold">Settings</h1>
      <Looks />
      <Me />
      <Brake />
      {isAdmin && <People />}
      {isAdmin && <Tokens />}
      {isAdmin && <Forgetting />}
    </div>
  )
}

function Looks() {
  const { theme, zone } = useSettings()
  return (
    <Section level={2} title="This page, in this browser">
      <div className="flex flex-wrap gap-6">
        <Named name="Theme"><Chips label="Theme" of={THEMES} chosen={[theme]} onChoose={(name) => change({ theme: name })} /></Named>
        <Named name="Times"><Chips label="Times" of={['utc', 'local']} chosen={[zone]} onChoose={(name) => change({ zone: name })} /></Named>
      </div>
    </Section>
  )
}

/** Says in sight what a group of choices is about. */
function Named({ name, children }: { name: string; children: ReactNode }) {
  return <div className="flex items-center gap-2 text-sm"><span aria-hidden className="text-muted">{name}</span>{children}</div>
}

function Me() {
  const { data } = useQuery(me)
  const sessions = useQuery({ queryKey: ['sessions'], queryFn: () => told(api.GET('/v1/sessions')), retry: false })
  const passkeys = useQuery({ queryKey: ['passkeys'], queryFn: () => told(api.GET('/v1/passkeys')), retry: false })
  const questions = useQueryClient()
  const end = async (id: string) => {
    await told(api.POST('/v1/sessions/{session_id}/end', { params: { path: { session_id: id } } }))
    await questions.invalidateQueries({ queryKey: ['sessions'] })
  }
  if (!data) return null
  return (
    <Section level={2} title="You">
      <Facts>
        <Fact name="Name"><Text>{data.name}</Text> (known by {data.via.replaceAll('_', ' ')})</Fact>
        <Fact name="Tenant"><Text>{data.tenant}</Text></Fact>
        <Fact name="May">{data.scopes.join(', ')}</Fact>
      </Facts>
      {sessions.data && (
        <List heads={['signed in', 'by', 'until', '']}>
          {sessions.data.sessions.map((one) => (
            <tr key={one.id} className="border-t border-line">
              <td className="px-3 py-1.5"><When at={one.created_at} />{one.is_this && ' (here)'}</td>
              <td className="px-3 py-1.5">{one.via}</td>
              <td className="px-3 py-1.5"><When at={one.expires_at} /></td>
              <td className="px-3 py-1.5 text-right">{!one.is_this && <Button onClick={() => void end(one.id)}>End</Button>}</td>
            </tr>
          ))}
        </List>
      )}
      {passkeys.data && <p className="text-sm">{passkeys.data.passkeys.length === 0 ? 'No passkey yet' : many(passkeys.data.passkeys.length, 'passkey')}; <a href={new URL('signin', HOME).href}>add one, or sign out</a>.</p>}
    </Section>
  )
}

const PERSONS: readonly Scope[] = ['approver', 'auditor', 'admin']
const STANDING = { in: '', sign_in_again: ' (has to sign in at the provider again)', not_allowed: ' (not let in by the provider)', revoked: ' (revoked)' }
const TOKENS: readonly Scope[] = ['agent', 'approver', 'auditor', 'admin']

function People() {
  const { data, error, refetch } = useQuery({ queryKey: ['people'], queryFn: () => told(api.GET('/v1/people')) })
  const { open, show, close } = useOpen<'invite'>()
  const [link, setLink] = useState<string | null>(null)
  const [left, setLeft] = useState<Left | null>(null)
  const [revoking, setRevoking] = useState<{ id: string; name: string } | null>(null)
  const questions = useQueryClient()
  const invite = async (name: string, scopes: readonly Scope[]) => {
    const answer = await told(api.POST('/v1/people', { body: { name, scopes: scopes as never, lasts_s: 3600, convert: false } }))
    close()
    setLink(answer.link)
    await questions.invalidateQueries({ queryKey: ['people'] })
  }
  const revoke = async () => {
    const answer = await told(api.POST('/v1/people/{person_id}/revoke', { params: { path: { person_id: revoking!.id } } }))
    setRevoking(null)
    setLeft(answer)
    await questions.invalidateQueries({ queryKey: ['people'] })
    await questions.invalidateQueries({ queryKey: ['api-keys'] })
  }
  if (error) return <Trouble error={error} onRetry={() => void refetch()} />
  return (
    <Section level={2} title="People" aside={<Button onClick={show('invite')}>Invite …</Button>}>
      <List heads={['name', 'may', 'passkeys', 'sessions', '']}>
        {data?.people.map((one) => (
          <tr key={one.id} className="border-t border-line">
            <th scope="row" className="px-3 py-1.5 font-normal"><Text>{one.name}</Text>{STANDING[one.standing]}{one.invited_until && <span className="text-muted"> invited; the link ends <When at={one.invited_until} /></span>}</th>
            <td className="px-3 py-1.5">{one.scopes.join(', ')}</td>
            <td className="px-3 py-1.5">{one.passkeys}</td>
            <td className="px-3 py-1.5">{one.sessions}</td>
            <td className="px-3 py-1.5 text-right">{!one.is_revoked && <Button look="bad" onClick={() => setRevoking(one)}>Revoke …</Button>}</td>
          </tr>
        ))}
      </List>
      {open && <Naming title="Invite somebody" verb="Make a link" hint="The link works once, for an hour. Hand it over in a way that you trust." among={PERSONS} act={invite} onClose={close} />}
      {link && <Once title="The link, shown once" text={link} onClose={() => setLink(null)} />}
      {revoking && (
        <Acting title={`Revoke ${revoking.name}`} verb="Revoke" look="bad" needs={[]} act={revoke} onClose={() => setRevoking(null)}>
          <p>They come in no more. Their passkeys, sessions and tokens end, the grants and delegations that they gave or got, and their votes on what has not run yet. What they did stays on the record.</p>
        </Acting>
      )}
      {left && <WhatStays left={left} onClose={() => setLeft(null)} />}
    </Section>
  )
}

type Left = components['schemas']['PersonLeft']

/** Says what ended with somebody, and names what they had set up for others: that goes on until somebody ends it. */
function WhatStays({ left, onClose }: { left: Left; onClose: () => void }) {
  const { ended, not_ended } = left
  const counts = [many(ended.api_keys.length, 'token'), many(ended.links.length, 'link'), many(ended.grants.length, 'grant'), many(ended.delegations.length, 'delegation'), many(ended.approvals.length, 'vote')]
  const others = [...not_ended.api_keys.map((one) => ({ ...one, what: 'a token that they gave' })), ...not_ended.people.map((one) => ({ ...one, what: 'whom they let in' }))]
  return (
    <Dialog title={`${left.person.name} is revoked`} onClose={onClose}>
      <div className="space-y-2 text-sm">
        <p>Ended with them: {counts.join(', ')}.</p>
        {others.length + (not_ended.policy ? 1 : 0) > 0 && <p>Goes on, and is for you to look at:</p>}
        <ul className="list-disc pl-5">
          {others.map((one) => <li key={one.id}><Text>{one.name}</Text>, {one.what} <Id>{one.id}</Id></li>)}
          {not_ended.policy && <li>the policy in force, which they applied</li>}
        </ul>
      </div>
    </Dialog>
  )
}

function Tokens() {
  const { data, error, refetch } = useQuery({ queryKey: ['api-keys'], queryFn: () => told(api.GET('/v1/api-keys')) })
  const { open, show, close } = useOpen<'give'>()
  const [token, setToken] = useState<string | null>(null)
  const [revoking, setRevoking] = useState<{ id: string; name: string } | null>(null)
  const questions = useQueryClient()
  const give = async (name: string, scopes: readonly Scope[]) => {
    const answer = await told(api.POST('/v1/api-keys', { body: { name, scopes: scopes as never } }))
    close()
    setToken(answer.token)
    await questions.invalidateQueries({ queryKey: ['api-keys'] })
  }
  const revoke = async () => {
    await told(api.POST('/v1/api-keys/{key_id}/revoke', { params: { path: { key_id: revoking!.id } } }))
    setRevoking(null)
    await questions.invalidateQueries({ queryKey: ['api-keys'] })
  }
  if (error) return <Trouble error={error} onRetry={() => void refetch()} />
  return (
    <Section level={2} title="Tokens" aside={<Button onClick={show('give')}>Give one …</Button>}>
      <List heads={['for', 'scope', 'given', 'last used', '']}>
        {data?.api_keys.map((one) => (
          <tr key={one.id} className="border-t border-line">
            <th scope="row" className="px-3 py-1.5 font-normal"><Text>{one.name}</Text> <Id>{one.id}</Id>{one.is_revoked && ' (revoked)'}</th>
            <td className="px-3 py-1.5">{one.scopes.join(', ')}</td>
            <td className="px-3 py-1.5"><When at={one.created_at} /> by <Text>{one.given_by}</Text></td>
            <td className="px-3 py-1.5">{one.last_used ? <When at={one.last_used} /> : 'never'}</td>
            <td className="px-3 py-1.5 text-right">{!one.is_revoked && <Button look="bad" onClick={() => setRevoking(one)}>Revoke …</Button>}</td>
          </tr>
        ))}
      </List>
      {open && <Naming title="Give a token" verb="Give it" hint="It is shown once; only a hash is kept." among={TOKENS} act={give} onClose={close} />}
      {token && <Once title="The token, shown once" text={token} onClose={() => setToken(null)} />}
      {revoking && (
        <Acting title={`Revoke the token of ${revoking.name}`} verb="Revoke" look="bad" needs={[]} act={revoke} onClose={() => setRevoking(null)}>
          <p>Whoever uses it is refused from the next second on.</p>
        </Acting>
      )}
    </Section>
  )
}

function List({ heads, children }: { heads: readonly string[]; children: ReactNode }) {
  return (
    <div className="overflow-x-auto rounded-lg border border-line">
      <table className="w-full text-left text-sm">
        <thead className="bg-raised text-muted"><tr>{heads.map((head) => (head ? <th key={head} scope="col" className="px-3 py-1.5 font-medium">{head}</th> : <td key="acts" />))}</tr></thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  )
}

type NamingProps = { title: string; verb: string; hint: string; among: readonly Scope[]; act: (name: string, scopes: readonly Scope[]) => Promise<void>; onClose: () => void }

function Naming({ title, verb, hint, among, act, onClose }: NamingProps) {
  const [name, setName] = useState('')
  const [scope, setScope] = useState<Scope>(among[0]!)
  return (
    <Acting title={title} verb={verb} needs={[]} isReady={name.trim() !== ''} act={() => act(name.trim(), [scope])} onClose={onClose}>
      <AskedLine label="Name" value={name} onChange={setName} />
      <div className="space-y-1"><span aria-hidden className="block font-medium">May</span><Chips label="May" of={among} chosen={[scope]} onChoose={setScope} /></div>
      <p className="text-muted">{hint}</p>
    </Acting>
  )
}

function Once({ title, text, onClose }: { title: string; text: string; onClose: () => void }) {
  return (
    <Dialog title={title} onClose={onClose}>
      <p className="flex items-start gap-2 text-sm"><code className="min-w-0 rounded bg-sunken p-2 break-all">{text}</code><Copy text={text} label="Copy it" /></p>
    </Dialog>
  )
}
