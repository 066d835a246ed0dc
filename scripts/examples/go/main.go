// Pays an order: go run . ORDER, in the environment that 'tollgate dev' writes.
package main

import (
	"crypto/rand"
	"fmt"
	"log"
	"net"
	"os"
	"time"
)

// object is a JSON object of the API. Amounts in it are text, never floats.
type object map[string]any

func main() {
	order := os.Args[1]
	api := connect()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	endpoint := api.call("POST", "/v1/webhooks", object{
		"url": "http://" + listener.Addr().String() + "/", "event_types": []string{"payment.captured"},
	}, "")
	events := receive(listener, endpoint["secret"].(string))

	payment := api.call("POST", "/v1/payments", object{
		"amount": "12.00", "currency": "EUR", "payee": "shop.example", "reference": order,
	}, keptKey(order+".key"))
	id := payment["id"].(string)
	api.call("POST", "/v1/payments/"+id+"/captures", nil, id+"-capture")
	ticket := api.call("GET", "/v1/tickets/"+payment["ticket_id"].(string), nil, "")
	for _, line := range ticket["lines"].([]any) {
		line := line.(map[string]any)
		fmt.Println(line["label"], line["amount"], line["rule"])
	}
	time.AfterFunc(time.Minute, func() { log.Fatal("no webhook within a minute") })
	for e := range events {
		if e.Data.PaymentID == id {
			api.call("DELETE", "/v1/webhooks/"+endpoint["id"].(string), nil, "")
			fmt.Println("verified", e.ID, e.Data.PaymentID, e.Data.Status)
			return
		}
	}
}

// keptKey is the idempotency key of an order. It is kept before anything is sent: if
// there is no answer, start the program again, and the same key pays once.
func keptKey(file string) string {
	if _, err := os.Stat(file); os.IsNotExist(err) {
		check(os.WriteFile(file, []byte(rand.Text()), 0o600))
	}
	key, err := os.ReadFile(file)
	check(err)
	return string(key)
}
