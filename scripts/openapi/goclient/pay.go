// Command goclient pays against a running sandbox with the client that
// oapi-codegen makes of the OpenAPI document with its default settings (api.go,
// which is not kept). It reads the environment that `tollgate dev --write-env`
// writes, and ends with 1 when something is not as documented.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/uuid"
)

func main() {
	log.SetFlags(0)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := pay(ctx); err != nil {
		log.Fatal("FAIL  Go: ", err)
	}
}

func pay(ctx context.Context) error {
	base := os.Getenv("TOLLGATE_URL")
	at, err := url.Parse(base)
	if err != nil || (at.Hostname() != "127.0.0.1" && at.Hostname() != "::1" && at.Hostname() != "localhost") {
		return fmt.Errorf("TOLLGATE_URL: %q is not on this machine", base)
	}
	assertion, err := sign()
	if err != nil {
		return err
	}
	token := ""
	api, err := NewClientWithResponses(base, WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		return nil
	}))
	if err != nil {
		return err
	}
	issued, err := api.IssueTokenWithFormdataBodyWithResponse(ctx, &IssueTokenParams{}, TokenRequest{
		GrantType: "client_credentials", ClientAssertion: assertion,
		ClientAssertionType: "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
	})
	if err != nil {
		return fmt.Errorf("issued: %w", err)
	}
	if issued.JSON200 == nil {
		return fmt.Errorf("token: %s", issued.Body)
	}
	token = issued.JSON200.AccessToken

	var call QuoteCall
	var request QuoteRequest
	input := QuoteInput{Amount: "12.00", Currency: "EUR", Payee: "shop.example"}
	if err := call.FromQuoteCall0(QuoteCall0{Tool: "quote_ticket", Input: input}); err != nil {
		return err
	}
	if err := request.FromQuoteCall(call); err != nil {
		return err
	}
	quoted, err := api.CreateQuoteWithResponse(ctx, &CreateQuoteParams{}, request)
	if err != nil {
		return fmt.Errorf("quoted: %w", err)
	}
	if quoted.JSON200 == nil {
		return fmt.Errorf("quote: %s", quoted.Body)
	}
	paid, err := api.CreatePaymentWithResponse(ctx, &CreatePaymentParams{IdempotencyKey: uuid.NewString()},
		PaymentRequest{Amount: input.Amount, Currency: input.Currency, Payee: input.Payee})
	if err != nil {
		return fmt.Errorf("paid: %w", err)
	}
	if paid.JSON201 == nil {
		return fmt.Errorf("payment: %s", paid.Body)
	}
	captured, err := api.CapturePaymentWithResponse(ctx, paid.JSON201.Id, &CapturePaymentParams{}, CaptureRequest{})
	if err != nil {
		return fmt.Errorf("captured: %w", err)
	}
	if captured.JSON201 == nil || captured.JSON201.FeeTotal != quoted.JSON200.Total || captured.JSON201.Payment.Status != "captured" {
		return fmt.Errorf("capture: %s", captured.Body)
	}
	events, err := api.ListEventsWithResponse(ctx, &ListEventsParams{ObjectId: &paid.JSON201.Id, Types: &[]string{"payment.captured"}})
	if err != nil {
		return fmt.Errorf("events: %w", err)
	}
	if events.JSON200 == nil || len(events.JSON200.Data) != 1 {
		return fmt.Errorf("events: %s", events.Body)
	}
	event, err := events.JSON200.Data[0].AsEvent()
	if err != nil {
		return err
	}
	one, err := event.AsPaymentCapturedEvent()
	if err != nil || one.Data.CaptureId != captured.JSON201.Id || one.Data.Amount != "12.00" {
		return fmt.Errorf("event: %w %+v", err, one)
	}
	fmt.Printf("ok    Go: %s captured, fees %s\n", paid.JSON201.Id, captured.JSON201.FeeTotal)
	return nil
}

// sign makes a client assertion (RFC 7523 §3).
func sign() (string, error) {
	var key jose.JSONWebKey
	text := []byte(os.Getenv("TOLLGATE_CLIENT_JWK"))
	if !bytes.HasPrefix(text, []byte("{")) {
		var err error
		if text, err = os.ReadFile(string(text)); err != nil {
			return "", err
		}
	}
	if err := json.Unmarshal(text, &key); err != nil {
		return "", fmt.Errorf("TOLLGATE_CLIENT_JWK: %w", err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, nil)
	if err != nil {
		return "", err
	}
	client, now := os.Getenv("TOLLGATE_CLIENT_ID"), time.Now()
	claims, err := json.Marshal(map[string]any{
		"iss": client, "sub": client, "aud": os.Getenv("TOLLGATE_ISSUER"), "jti": uuid.NewString(),
		"iat": now.Unix(), "exp": now.Add(time.Minute).Unix(),
	})
	if err != nil {
		return "", err
	}
	signed, err := signer.Sign(claims)
	if err != nil {
		return "", err
	}
	return signed.CompactSerialize()
}
