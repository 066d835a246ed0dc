package tollgate

import (
	"errors"
	"fmt"
)

// DamagedObject stands in a list or an export in the place of an object that
// is stored and cannot be read (interface §11, "damage"). It has nothing of
// the object but its name: what can still be read of it is not to be trusted.
type DamagedObject struct {
	Object  string `json:"object"`
	ID      string `json:"id"`
	Damaged bool   `json:"damaged"` // true

	MerchantAccountID string `json:"-"` // as far as it is known
}

// Damage is the error of a stored object that cannot be read: code
// record_damaged, whatever the cause is. A fault in what is stored is never the
// client's, so no error of the cause gets through.
func Damage(object, id string, cause error) *Error {
	if known := DamageOf(cause); known != nil {
		object, id = known.Object, known.ID
	}
	return &Error{
		Code: CodeRecordDamaged, Cause: cause, Damaged: &DamagedObject{Object: object, ID: id, Damaged: true},
		Message: fmt.Sprintf("The %s %s is stored and cannot be read. Nothing was changed; ask the operator of the service, and name it.", object, id),
	}
}

// DamageOf is the object that an error is about because it cannot be read, nil
// for any other error.
func DamageOf(err error) *DamagedObject {
	if e, ok := errors.AsType[*Error](err); ok && e.Code == CodeRecordDamaged {
		return e.Damaged
	}
	return nil
}

// Event is the one event of a damaged object, integrity.failed: its data names
// the object and nothing of what is in it.
func (d *DamagedObject) Event(newID NewIDFunc, org string, at Instant) (Event, error) {
	return NewEvent(newID(PrefixEvent), IntegrityFailed, at, org, d.MerchantAccountID, "", IntegrityData{d.ID, d.Object})
}

// IntegrityData is the data of integrity.failed.
type IntegrityData struct {
	ObjectID   string `json:"object_id"`
	ObjectType string `json:"object_type"`
}
