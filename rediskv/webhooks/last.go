package webhooks

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/record"
)

// endOf is when an attempt ended, which is when its delivery has, if it was the last.
func endOf(a *tollgate.Attempt) tollgate.Instant {
	if a.DurationMS == nil {
		return a.StartedAt
	}
	return a.StartedAt.Add(time.Duration(*a.DurationMS) * time.Millisecond)
}

// counted reports whether the last attempt of a delivery was recorded, unless it is of
// before, or is being made.
func counted(f rediskv.Fields, state tollgate.DeliveryState) bool {
	return f["done"] == f["n"] || f["done"] == "" || state == tollgate.DeliverySending || state == tollgate.DeliveryCanceled
}

// settled are the fields of a delivery with those that it has left to its last attempt, which
// stands in the same hash. One that has succeeded does: that takes a fifth of its room, and
// nothing changes any more. Where the attempt cannot be read, they are not there. key is that of
// the attempts.
func settled(key string, f rediskv.Fields) rediskv.Fields {
	number := f["n"]
	if f["st"] != string(tollgate.DeliverySucceeded) || f["done"] != "" || !record.IsNumbered(number) {
		return f
	}
	text, a := "", tollgate.Attempt{}
	for _, name := range record.Pieces(number) {
		text += f[name]
	}
	if !IsRecorded(text) || record.DecodeAt(key+":"+number, text, &a) != nil || a.Status != tollgate.AttemptSucceeded || a.Response == nil {
		return f
	}
	all := rediskv.Fields{"done": number, "trig": string(a.Trigger), "lat": rediskv.Milli(a.CreatedAt), "code": strconv.Itoa(a.Response.StatusCode), "cat": rediskv.Milli(endOf(&a))}
	if a.ReplayID != nil {
		all["rpl"] = *a.ReplayID
	}
	maps.Copy(all, f) // what stands there is not left out
	return all
}

// CheckLast compares a delivery with the last of its attempts, as it was recorded:
// scripts keep of that what the list of deliveries shows. key is that of the attempts.
func CheckLast(key string, f rediskv.Fields, attempts map[string]string) error {
	f = settled(key, f)
	state := tollgate.DeliveryState(f["st"])
	if state == tollgate.DeliverySucceeded && f["done"]+f["lat"] == "" {
		return fmt.Errorf("it is %s, and its attempt %s does not say so", state, f["n"])
	}
	if !counted(f, state) {
		return fmt.Errorf("it has made %s attempts, and the last that has ended is %s", f["n"], f["done"])
	}
	if f["done"] == "" || f["done"] != f["n"] {
		return nil
	}
	var a tollgate.Attempt
	if err := record.DecodeAt(key+":"+f["n"], attempts[f["n"]], &a); err != nil {
		return fmt.Errorf("attempt %s: %w", f["n"], err)
	}
	code, why := "", ""
	if a.Response != nil {
		code = strconv.Itoa(a.Response.StatusCode)
	}
	succeeded := a.Status == tollgate.AttemptSucceeded
	if !succeeded {
		why = "http_" + code
	}
	if a.Error != nil {
		why = a.Error.Code
	}
	type compared struct{ name, written string }
	all := []compared{{"lat", rediskv.Milli(a.CreatedAt)}, {"code", code}, {"why", why}}
	if slices.Contains(attempted, state) { // it has not been queued again
		replay := ""
		if a.ReplayID != nil {
			replay = *a.ReplayID
		}
		all = append(all, compared{"trig", string(a.Trigger)}, compared{"rpl", replay}, compared{"nat", rediskv.Milli(a.NextAttemptAt)})
		if f["run"] == "" && state != tollgate.DeliveryRetrying {
			all = append(all, compared{"cat", rediskv.Milli(endOf(&a))})
		}
		if succeeded != (state == tollgate.DeliverySucceeded) {
			return fmt.Errorf("it is %s, and its attempt %s %s", state, f["n"], a.Status)
		}
	}
	for _, one := range all {
		if cmp.Or(f[one.name], "0") != cmp.Or(one.written, "0") {
			return fmt.Errorf("its %q is %q, and %q in its attempt %s", one.name, f[one.name], one.written, f["n"])
		}
	}
	return nil
}

// attempted are the states of which the last attempt is the reason.
var attempted = []tollgate.DeliveryState{tollgate.DeliverySucceeded, tollgate.DeliveryFailed, tollgate.DeliveryRetrying}
