import type { ButtonHTMLAttributes } from 'react'

const LOOKS = {
  plain: 'border border-line bg-paper text-ink hover:bg-raised disabled:text-muted disabled:hover:bg-paper',
  main: 'bg-accent text-on-accent hover:opacity-90 disabled:bg-sunken disabled:text-muted disabled:opacity-100',
  good: 'bg-good text-paper hover:opacity-90 aria-disabled:opacity-60 disabled:bg-sunken disabled:text-muted disabled:opacity-100',
  bad: 'border border-bad/50 bg-paper text-bad hover:bg-bad-ground disabled:border-line disabled:bg-sunken disabled:text-muted',
}

type Props = ButtonHTMLAttributes<HTMLButtonElement> & { look?: keyof typeof LOOKS }

export function Button({ look = 'plain', className = '', type = 'button', ...rest }: Props) {
  return (
    <button type={type} {...rest} className={`inline-flex items-center gap-1.5 rounded-md px-3 py-1.5 text-sm font-medium whitespace-nowrap ${LOOKS[look]} ${className}`} />
  )
}
