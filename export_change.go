package tollgate

import (
	"fmt"
	"time"
)

// ExportLifetime is how long a file is kept (interface §8).
const ExportLifetime = 7 * 24 * time.Hour

// maxExportTries is how often work on an export may break off without having
// written anything.
const maxExportTries = 5

// ExportRoom is what an organization's exports take up, as it was read.
type ExportRoom struct {
	Unfinished int
	Bytes      int64 // of their files, compressed, with their previews
	Most       int64 // bytes that they may
}

// NewExport is what a client asked for, checked.
type NewExport struct {
	Dataset Dataset
	Format  string
	Filters map[string]string
}

// ExportChange is everything that one change of an export writes, all or nothing.
type ExportChange struct {
	From    ExportStatus // that it was read with; empty for a new one
	Export  Export       // as it becomes
	Action  string       // for the audit record: export.create, cancel, delete or end
	Outcome string       // succeeded or refused
	Event   *Event       // nil: none
}

// CreateExport makes an export for a worker to carry out. CodeQuotaExceeded when
// MaxExports are not finished, CodeRateLimited when the files take up all that
// they may.
func CreateExport(newID NewIDFunc, o Origin, room ExportRoom, n NewExport) (*ExportChange, error) {
	if room.Unfinished >= MaxExports {
		return nil, quotaExceeded("exports", "%d exports are not finished yet; wait for one, or cancel it.", MaxExports)
	}
	if room.Bytes >= room.Most {
		return nil, ExportsFull(room.Most)
	}
	c := &ExportChange{Action: "export.create", Outcome: "succeeded", Export: Export{
		Object: "export", ID: newID(PrefixExport), CreatedAt: o.At, HistoryID: optional(o.HistoryID), Dataset: n.Dataset, Format: n.Format, Filters: n.Filters, Status: ExportStatusPending,
	}}
	return c, c.close(newID, o, ExportCreated)
}

// ExportsFull is the CodeRateLimited error when the files of an organization take
// up all the bytes that they may. Without a bound one client could fill the
// memory, and no payment of anybody would find room.
func ExportsFull(most int64) *Error {
	return &Error{Code: CodeRateLimited, Message: fmt.Sprintf(
		"The files of the organization's exports take up all of the %d MiB that they may; delete one, or wait until one expires.", most>>20)}
}

// DeleteExport cancels an export that is not done, and drops the file of one that
// is. nil: that has been done. CodeExportStateInvalid when it has failed.
func DeleteExport(o Origin, was Export) (*ExportChange, error) {
	c := &ExportChange{From: was.Status, Export: was, Outcome: "succeeded"}
	e := &c.Export
	e.Preview = nil
	switch was.Status {
	case ExportStatusFailed:
		return nil, exportState("An export that is %s has nothing to cancel or to delete.", was.Status)
	case ExportStatusCanceled, ExportStatusExpired:
		return nil, nil
	case ExportStatusSucceeded:
		result := *was.Result
		result.ExpiresAt = o.At
		c.Action, e.Status, e.Result = "export.delete", ExportStatusExpired, &result
	default:
		c.Action, e.Status, e.FinishedAt = "export.cancel", ExportStatusCanceled, o.At
	}
	return c, nil
}

// FinishExport ends an export whose file is complete.
func FinishExport(newID NewIDFunc, o Origin, was Export, file ExportResult) (*ExportChange, error) {
	c := &ExportChange{From: was.Status, Export: was, Action: "export.end", Outcome: "succeeded"}
	file.ExpiresAt = o.At.Add(ExportLifetime)
	c.Export.Status, c.Export.FinishedAt, c.Export.Result = ExportStatusSucceeded, o.At, &file
	return c, c.close(newID, o, ExportSucceeded)
}

// FailExport ends an export that cannot be made.
func FailExport(newID NewIDFunc, o Origin, was Export, reason ExportError) (*ExportChange, error) {
	c := &ExportChange{From: was.Status, Export: was, Action: "export.end", Outcome: "refused"}
	c.Export.Status, c.Export.FinishedAt, c.Export.Error = ExportStatusFailed, o.At, &reason
	return c, c.close(newID, o, ExportFailedEvent)
}

// ExportBrokenOff says why work on an export must not go on: this is its try of
// that number (from 1), which is too often. nil: it may.
func ExportBrokenOff(try int64) *ExportError {
	if try <= maxExportTries {
		return nil
	}
	return &ExportError{CodeInternal, "The export broke off too often. Make a new one; if that fails, too, ask for help with its id."}
}

// HasFile is nil for an export whose file can be read. CodeExportExpired when it
// is no longer there, CodeExportStateInvalid when there is none.
func (e *Export) HasFile() error {
	switch e.Status {
	case ExportStatusSucceeded:
		return nil
	case ExportStatusExpired:
		return ExportGone()
	}
	return exportState("An export that is %s has no file.", e.Status)
}

// ExportGone is the CodeExportExpired error of a file that is no longer there.
func ExportGone() *Error {
	return &Error{Code: CodeExportExpired, Message: "The file is no longer kept; make a new export."}
}

func exportState(format string, args ...any) *Error {
	return &Error{Code: CodeExportStateInvalid, Message: fmt.Sprintf(format, args...)}
}

// close makes the one event of the change.
func (c *ExportChange) close(newID NewIDFunc, o Origin, t EventType) error {
	e, err := NewEvent(newID(PrefixEvent), t, o.At, o.Organization, "", o.RequestID, c.Export.EventData())
	c.Event = &e
	return err
}
