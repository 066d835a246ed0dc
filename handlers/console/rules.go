package console

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/wasm"
)

const (
	maxModule   = 8 << 20 // bytes that are read of a module
	maxUpload   = 3 << 20 // of a backtest's request
	maxBacktest = 10 * time.Minute
)

var hexSum = regexp.MustCompile(`^[0-9a-f]{64}$`)

func (c *Console) rules(w http.ResponseWriter, req *http.Request) {
	list, err := c.Rules(req.Context())
	if err != nil {
		refuse(w, unreachable(err))
		return
	}
	answer(w, list)
}

// source is what a rule was compiled from, as far as anybody has it: the service keeps
// the modules of published rules alone.
func (c *Console) source(w http.ResponseWriter, req *http.Request) {
	builtin, err := builtinRule(req.PathValue("rule_id"))
	if err != nil {
		refuse(w, err)
		return
	}
	if builtin == nil {
		w.WriteHeader(http.StatusNoContent) // as of every rule that a team has published
		return
	}
	answer(w, map[string]string{"name": "rule.toml", "text": string(builtin.Source)})
}

// module answers with the bytes of a rule, to be run in the browser: exactly those that
// a ticket cites, or none.
func (c *Console) module(w http.ResponseWriter, req *http.Request) {
	id, want := req.PathValue("rule_id"), req.URL.Query().Get("sha256")
	if !hexSum.MatchString(want) {
		refuse(w, &Problem{http.StatusBadRequest, "parameter_invalid", "sha256 is the module's SHA-256, 64 hexadecimal digits."})
		return
	}
	module, err := c.moduleOf(req.Context(), id)
	if err != nil {
		refuse(w, err)
		return
	}
	if sum := sha256.Sum256(module); hex.EncodeToString(sum[:]) != want {
		refuse(w, &Problem{http.StatusConflict, "module_differs", fmt.Sprintf("The module of %s has the SHA-256 %x, not the one that was asked for.", id, sum)})
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/wasm")
	h.Set("Content-Length", strconv.Itoa(len(module)))
	h.Set("Cache-Control", "private, max-age=86400, immutable") // its address has its checksum
	_, _ = w.Write(module)
}

func (c *Console) moduleOf(ctx context.Context, id string) ([]byte, error) {
	builtin, err := builtinRule(id)
	if err != nil {
		return nil, err
	}
	if builtin != nil {
		return builtin.Module, nil
	}
	response, err := c.ask(ctx, http.MethodGet, "/v1/rules/"+id+"/module")
	if err != nil {
		return nil, unreachable(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxModule+1))
	switch {
	case err != nil:
		return nil, unreachable(err)
	case response.StatusCode != http.StatusOK:
		return nil, refusal(response.StatusCode, body)
	case len(body) > maxModule:
		return nil, &Problem{http.StatusBadGateway, "module_differs", "The API's module is larger than any."}
	}
	return body, nil
}

// refusal is the API's own, read.
func refusal(status int, body []byte) *Problem {
	var p struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	if err := json.Unmarshal(body, &p); err != nil || p.Code == "" {
		return &Problem{http.StatusBadGateway, "api_unreachable", fmt.Sprintf("The API answered with the status %d and nothing more.", status)}
	}
	return &Problem{status, p.Code, p.Message}
}

// builtinRule is a rule that the program brings along; nil for another one.
func builtinRule(id string) (*wasm.BuiltinRule, error) {
	citation, ok := tollgate.ParseRuleID(id)
	if !ok {
		return nil, nothingHere
	}
	all, err := wasm.Builtin()
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].Citation == citation {
			return &all[i], nil
		}
	}
	return nil, nil
}

// backtest prices past tickets with another rule, in this process.
func (c *Console) backtest(w http.ResponseWriter, req *http.Request) {
	body, err := readBody(w, req, maxUpload)
	if err != nil {
		refuse(w, err)
		return
	}
	var b Backtest
	if err := json.Unmarshal(body, &b, json.RejectUnknownMembers(true)); err != nil {
		refuse(w, &Problem{http.StatusBadRequest, "invalid_json", "The request is no backtest: " + err.Error()})
		return
	}
	if (b.Rule == "") == (len(b.Module) == 0) {
		refuse(w, &Problem{http.StatusBadRequest, "parameter_invalid", "A backtest has a candidate: rule is its citation, or module_base64 its bytes."})
		return
	}
	for name, cited := range map[string]string{"rule": b.Rule, "replaces": b.Replaces} {
		if _, err := tollgate.ParseCitation(cited); err != nil && (cited != "" || name == "replaces") {
			refuse(w, &Problem{http.StatusBadRequest, "parameter_invalid", name + ": " + err.Error()})
			return
		}
	}
	c.extend(w, maxBacktest+patience)
	result, err := within(req.Context(), maxBacktest, func(ctx context.Context) (any, error) { return c.Backtest(ctx, b) })
	if err != nil {
		refuse(w, unreachable(err))
		return
	}
	answer(w, result)
}
