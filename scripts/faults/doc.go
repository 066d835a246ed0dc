// Package faults plays clients, receivers of webhooks and a bank beside real processes of
// the service on a real Redis, and has everything go wrong that goes wrong in a data
// center: `make faults`.
//
// One part is one kind of fault. In each, clients go on all the time, and repeat with the
// same key whatever was not answered. A reader then reads everything through the API and
// compares it with what was acknowledged (package ledger of scripts/simulate, which does
// the same for simulated faults). What several clients do to one payment at once is
// recorded, and porcupine looks for an order of it that explains all answers.
//
// site_test.go has what is provisioned, place_test.go the processes, client_test.go and
// load_test.go the clients, outside_test.go receivers and the bank, shared_test.go the
// payments that clients share, and judge_test.go the verdict. Each part has a file.
package faults
