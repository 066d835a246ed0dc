module tollgate/scripts/rate

go 1.26.0

require (
	fortio.org/fortio v1.75.3
	fortio.org/log v1.18.3
)

require (
	fortio.org/sets v1.3.0 // indirect
	fortio.org/struct2env v0.4.2 // indirect
	fortio.org/version v1.0.4 // indirect
	github.com/kortschak/goroutine v1.1.3 // indirect
)
