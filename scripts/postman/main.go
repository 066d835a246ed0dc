// Command postman writes the OpenAPI document as a collection for Postman, Bruno,
// Insomnia and Newman (format 2.1):
//
//	go run ./scripts/postman <handlers/openapi.json >scripts/examples/tollgate.postman_collection.json
//
// The same document always makes the same collection.
package main

import (
	"io"
	"log"
	"os"
)

func main() {
	document, err := io.ReadAll(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	text, err := collection(document)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := os.Stdout.Write(text); err != nil {
		log.Fatal(err)
	}
}
