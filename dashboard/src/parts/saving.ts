/** Saves a text as a file where downloads go; the name is made safe for every file system. */
export function save(name: string, text: string): void {
  const address = URL.createObjectURL(new Blob([text], { type: 'application/octet-stream' }))
  const link = document.createElement('a')
  link.href = address
  link.download = name.replace(/[^A-Za-z0-9._-]+/g, '_').slice(-120)
  link.click()
  setTimeout(() => URL.revokeObjectURL(address), 10_000)
}
