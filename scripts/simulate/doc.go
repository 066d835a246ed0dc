// Package simulate plays the whole service in one bubble of testing/synctest: two
// processes that serve, two that work, clients, receivers of webhooks, somebody who
// pays payouts, and an embedded Redis between them.
//
// Everything that the processes say to Redis passes the Wire. It decides when each
// command arrives and when its answer does, by numbers that it draws from the seed
// and from what is said. So one seed is one story, which can be played again. The
// Wire is also where things go wrong: it loses answers, cuts and delays connections,
// answers with Redis' errors, and ends, freezes and misleads processes.
//
// Redis answers OOM, READONLY, LOADING, TRYAGAIN or MOVED instead of carrying a command
// out. A client of one node does not follow MOVED: it is an error, of which the service
// makes a 503. A whole packet is refused, so that no script runs and none is queued.
//
// An answer never comes twice: a server that is correct sends none, and the client could
// not know whose it is. Requests do come twice. A proxy that tries again, or a client
// that does, has the same bytes carried out once more after they have changed something.
// That is at once, and the second answer is given; or up to ten seconds later, when other
// things have happened, and nobody hears of it.
//
// Redis goes back to any beginning of what it has done, and it is emptied, by FLUSHALL or
// by a start without its data. Then an operator puts a copy back, and accepts what it
// lacks. What was acknowledged may be gone after that, but clients are told: with 503
// history_lost or 410 history_changed, and never with 401, as if nobody knew them.
//
// When a story is over, a reader asks the service for everything it has and compares
// that with a Model of what was acknowledged. The Model shares no code with the
// product, but for the auditor of audit records: what must hold of them is what `tollgate
// audit verify` says.
//
// Read wire.go for how time and order are made, machine.go for Redis, trouble.go and
// failing.go for what goes wrong with it, process.go for the processes, package story for
// what a seed means, client.go, revoking.go and outside.go for everybody else, judge.go,
// reader.go, auditing.go and package ledger for who judges, and run.go for a whole story.
package simulate
