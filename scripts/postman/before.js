// The sandbox gives programs on its machine a token. Elsewhere, set the variable token.
if (!pm.environment.get('token') && Date.now() > Number(pm.collectionVariables.get('renew_at') || 0)) {
  pm.sendRequest(pm.variables.get('base_url') + '/sandbox/token', (error, answer) => {
    if (error || answer.code !== 200) return
    pm.collectionVariables.set('token', answer.json().access_token)
    pm.collectionVariables.set('renew_at', Date.now() + 540000)
  })
}
