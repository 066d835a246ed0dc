// parseEnv reads what `tollgate dev --write-env` writes.
export function parseEnv(text) {
  const lines = text.split('\n').filter((line) => line.trim() !== '' && !line.startsWith('#'))
  return Object.fromEntries(lines.map((line) => {
    const at = line.indexOf('=')
    return [line.slice(0, at), line.slice(at + 1).replace(/^(['"])(.*)\1$/, '$2')]
  }))
}
