module tollgate/scripts/examples/go

go 1.26.0

require (
	github.com/go-jose/go-jose/v4 v4.1.8
	github.com/standard-webhooks/standard-webhooks/libraries v0.0.1
)
