package tollgate_test

import (
	"os"
	"reflect"
	"regexp"
	"testing"

	"github.com/go-json-experiment/json"

	"tollgate"
)

// The table has each type once, and what was written as the data of an event is
// read as that.
func TestEventKinds(t *testing.T) {
	text, err := os.ReadFile("event_types.go")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(` EventType += "([a-z_]+\.[a-z_]+)"`).FindAllSubmatch(text, -1)
	if len(named) != len(tollgate.EventKinds) || len(named) < 33 {
		t.Errorf("%d types have names, and the table has %d", len(named), len(tollgate.EventKinds))
	}
	rows := map[tollgate.EventType]bool{}
	for _, k := range tollgate.EventKinds {
		if rows[k.Type] || k.Type.Deliverable() != k.Delivered {
			t.Errorf("%s stands twice, or is not delivered as the table says", k.Type)
		}
		rows[k.Type] = true
		data := reflect.New(reflect.TypeOf(k.Data))
		full(data.Elem(), "EUR")
		e, err := tollgate.NewEvent("evt_1", k.Type, 1, "org_1", "", "", data.Interface())
		if err != nil {
			t.Fatal(err)
		}
		if again, err := e.Read(); err != nil || !reflect.DeepEqual(again, data.Interface()) {
			text, _ := json.Marshal(e)
			t.Errorf("%s was read as %+v, %v", text, again, err)
		}
	}
	for _, n := range named {
		if !rows[tollgate.EventType(n[1])] {
			t.Errorf("%s is not in the table", n[1])
		}
	}
	later := tollgate.Event{Type: "refund.created", Data: []byte(`{"refund_id":"ref_1"}`)}
	if data, err := later.Read(); data != nil || err != nil || !later.Type.Deliverable() {
		t.Errorf("an event of a later release: %v, %v", data, err)
	}
}
