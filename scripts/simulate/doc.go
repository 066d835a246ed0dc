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
// When a story is over, a reader asks the service for everything it has and compares
// that with a Model of what was acknowledged. The Model shares no code with the
// product.
//
// Read wire.go for how time and order are made, machine.go for Redis, process.go for
// the processes, plan.go for what a seed means, client.go and outside.go for
// everybody else, judge.go, reader.go and package ledger for who judges, and run.go for
// a whole story.
package simulate
