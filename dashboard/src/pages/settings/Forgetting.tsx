import { useOpen } from '../../parts/Acting'
import { Button } from '../../parts/Button'
import { Section } from '../../parts/Fact'
import { Erasing } from '../erasing/Erasing'
import { A_PERSON, aRun } from '../erasing/wanted'

/** Lets an administrator forget values: all about a person, or those of a run. */
export function Forgetting() {
  const { open, show, close } = useOpen<'person' | 'run'>()
  return (
    <Section level={2} title="Forgetting">
      <p className="flex flex-wrap items-center gap-3 text-sm">
        <span>Erase what was recorded about somebody; the record itself stays and verifies.</span>
        <Button look="bad" onClick={show('person')}>Forget a person …</Button>
        <Button look="bad" onClick={show('run')}>Forget a run …</Button>
      </p>
      {open && <Erasing of={open === 'person' ? A_PERSON : aRun('')} onClose={close} />}
    </Section>
  )
}
