package loop

import "time"

// Observer is told what a worker does, as the program makes metrics of it. Many
// goroutines call it.
type Observer interface {
	Round(work string, took time.Duration, failed bool) // a look at a partition
	Skipped(work string)                                // one that was not made, because this machine's clock may be wrong

	FannedOut(events int)  // their deliveries were made
	Attempting(change int) // attempts that are under way
	// Attempted: the outcome is succeeded, retrying, failed, late (the lease had run
	// out) or unrecorded.
	Attempted(outcome string, took time.Duration)
	EndpointDisabled(reason string)
	// Queue: deliveries that wait or are being sent, and how long the oldest due one
	// that nobody is sending has waited.
	Queue(partition, waiting int, oldest time.Duration)

	Expired()                         // a payment that the clock ended
	Payouts(status string, count int) // created, paid, failed, or later: the payout step has no answer yet

	Exporting(change int)
	ExportRows(count int)       // that were looked at
	ExportEnded(outcome string) // done, or left (canceled, or for another worker)

	Checked(objects int)
	CheckFound(kind string) // one of consistency.FindingKinds

	// AuditBehind: for how long the oldest entry of a partition's audit records that
	// could not be sealed has waited.
	AuditBehind(partition int, oldest time.Duration)
	Witnessed(failed bool) // the witness was told of a checkpoint
}

// Unobserved is an Observer that keeps nothing.
type Unobserved struct{}

func (Unobserved) Round(string, time.Duration, bool) {}
func (Unobserved) Skipped(string)                    {}
func (Unobserved) FannedOut(int)                     {}
func (Unobserved) Attempting(int)                    {}
func (Unobserved) Attempted(string, time.Duration)   {}
func (Unobserved) EndpointDisabled(string)           {}
func (Unobserved) Queue(int, int, time.Duration)     {}
func (Unobserved) Expired()                          {}
func (Unobserved) Payouts(string, int)               {}
func (Unobserved) Exporting(int)                     {}
func (Unobserved) ExportRows(int)                    {}
func (Unobserved) ExportEnded(string)                {}
func (Unobserved) Checked(int)                       {}
func (Unobserved) CheckFound(string)                 {}

func (Unobserved) AuditBehind(int, time.Duration) {}
func (Unobserved) Witnessed(bool)                 {}
