package worker

// Pure functions whose tables are tested by themselves.
var (
	Judge      = judge
	RetryAfter = retryAfter
)
