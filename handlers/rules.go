package handlers

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
	"tollgate/handlers/auth"
	"tollgate/handlers/input"
	"tollgate/handlers/oauth"
	"tollgate/handlers/problem"
	"tollgate/handlers/share"
	"tollgate/rediskv"
	"tollgate/rediskv/rules"
	"tollgate/wasm"
)

const (
	// maxRuleBody is what POST /v1/rules takes: a module of 256 KiB is 342 KiB
	// in base64, and golden cases come beside it.
	maxRuleBody = 512 << 10
	mediaWasm   = "application/wasm"
)

var ruleParameters = []string{"name", "limit", "cursor"}

// publishRequest is the body of POST /v1/rules.
type publishRequest struct {
	Rule      tollgate.Citation `json:"rule"`
	SHA256    string            `json:"sha256"` // of the module, instead of it
	Golden    jsontext.Value    `json:"golden"`
	Signature string            `json:"signature"`

	module []byte
}

func parsePublication(f *input.Fields) publishRequest {
	r := publishRequest{Rule: f.Citation("rule", true)}
	if text, ok := f.Text("module", true); ok {
		var err error
		r.module, err = base64.StdEncoding.Strict().DecodeString(text)
		if err != nil || strings.ContainsAny(text, "\r\n") { // which the decoder skips
			f.Wrong("module", "is a WebAssembly module in padded standard base64")
		}
		sum := sha256.Sum256(r.module)
		r.SHA256 = hex.EncodeToString(sum[:])
	}
	r.Golden, _ = f.Value("golden", true, "a list of golden cases", '[')
	r.Signature, _ = f.Text("signature", true)
	return r
}

// publishRule puts a version of a rule there for good: signed by somebody whom
// the organization has named, within the limits, and with golden cases that
// hold.
func (s *Server) publishRule(c *call, r publishRequest) (*answer, error) {
	idem, err := c.idempotency(c.org, "rules.publish", r)
	if err != nil {
		return nil, err
	}
	result, err := fresh(s, c, func() (rediskv.Result, error) { return s.tryPublish(c, r, keyOf(idem)) })
	if err != nil {
		return s.orRepeated(c, idem, err)
	}
	return s.answered(c, idem, result)
}

func (s *Server) tryPublish(c *call, r publishRequest, idem *rediskv.Idempotency) (none rediskv.Result, err error) {
	if slices.ContainsFunc(s.builtin, func(ref tollgate.RuleRef) bool { return ref.Rule.Name == r.Rule.Name }) {
		return none, ruleInvalid(r.Rule, "rule", "A rule of the name %s comes with the service; choose another name.", r.Rule.Name)
	}
	golden, err := wasm.ParseGolden(r.Golden)
	if err != nil {
		return none, ruleInvalid(r.Rule, "golden", "%s.", err)
	}
	kept, goldenSHA256, err := wasm.GoldenDigest(golden)
	if err != nil {
		return none, err
	}
	signer, keyID, err := s.ruleSigner(c, r, goldenSHA256)
	if err != nil {
		return none, err
	}
	rule := tollgate.Rule{
		Object: "rule", ID: tollgate.RuleID(r.Rule), CreatedAt: tollgate.At(s.clock()), Rule: r.Rule,
		SHA256: r.SHA256, GoldenSHA256: goldenSHA256, Bytes: len(r.module), SignerID: signer.ID, KeyID: keyID, Signature: r.Signature,
	}
	_, _, err = s.store.Rule(c.ctx, c.caller(http.StatusCreated), r.Rule)
	switch {
	case err == nil: // the same again, or refused by the store: nothing to examine
	case problem.From(err).Code != tollgate.CodeNotFound:
		return none, err
	default:
		if err := s.examined(c, &rule, r.module, golden); err != nil {
			return none, err
		}
	}
	return rediskv.Retried(func() (rediskv.Result, error) {
		facts, err := s.store.PublicationFacts(c.ctx, c.org, signer, rule.Rule)
		if (facts.Published != nil || rediskv.IsDamage(err)) && idem != nil {
			if earlier, ok, err := s.store.FindRepeated(c.ctx, c.caller(http.StatusCreated), *idem); err != nil || ok {
				return earlier, err
			}
		}
		if err != nil {
			return none, err
		}
		p, err := facts.Publish(s.store.NewID, s.store.Origin(c.caller(http.StatusCreated)), rule)
		if err != nil {
			return none, err
		}
		status, shown := http.StatusCreated, &rule
		if p == nil { // the same rule again is no fault
			status, shown = http.StatusOK, facts.Published
		}
		ans, err := reply(status, "/v1/rules/"+shown.ID, shown, []string{rediskv.ReachNone})
		if err != nil || p == nil {
			return rediskv.Result{Answer: ans}, err
		}
		return s.store.PublishRule(c.ctx, c.caller(ans.Status), idem, p, r.module, kept, ans)
	})
}

// ruleSigner verifies a signature; which of its faults it is, is for the log.
func (s *Server) ruleSigner(c *call, r publishRequest, goldenSHA256 string) (*rules.RuleSigner, string, error) {
	refuse := func(cause error) error {
		return &tollgate.Error{
			Code: tollgate.CodeRuleSignatureInvalid, Param: "signature", Rule: &r.Rule, Cause: cause,
			Message: "The signature is not one of a rule signer of this organization over this rule, module and golden cases.",
		}
	}
	id, err := auth.PeekRuleSigner(r.Signature)
	if err != nil {
		return nil, "", refuse(err)
	}
	signer, err := s.store.RuleSigner(c.ctx, c.org, id)
	switch {
	case err != nil && problem.From(err).Code == tollgate.CodeNotFound:
		return nil, "", refuse(err)
	case err != nil:
		return nil, "", err
	case signer.Status != tollgate.StatusActive:
		return nil, "", refuse(fmt.Errorf("the signer is %s", signer.Status))
	}
	keys, err := oauth.PublicKeys(signer.Keys)
	if err != nil {
		return nil, "", refuse(err)
	}
	keyID, err := auth.VerifyRule(r.Signature, keys, auth.RuleStatement{
		Signer: signer.ID, Organization: c.org, Rule: r.Rule, SHA256: r.SHA256, GoldenSHA256: goldenSHA256,
	}, s.clock())
	if err != nil {
		return nil, "", refuse(err)
	}
	return signer, keyID, nil
}

// examined has the module judged and fills in what was found out.
func (s *Server) examined(c *call, rule *tollgate.Rule, module []byte, golden []wasm.GoldenCase) error {
	if s.examine == nil {
		return problem.New(tollgate.CodePublishingUnavailable, "This instance cannot examine modules. Publish the rule on one that can.")
	}
	done, err := s.shares.Examining.Turn(c.ctx, c.org, c.client)
	if err != nil {
		return share.Refusal(err)
	}
	defer done()
	report, err := s.examine(c.ctx, rule.Rule, module, golden)
	if invalid, ok := errors.AsType[*wasm.InvalidError](err); ok {
		return ruleInvalid(rule.Rule, "module", "The module cannot be published: %s.", input.Shortened(invalid.Reason))
	}
	if err != nil {
		return err
	}
	rule.Label, rule.MaxFuel = report.Label, report.MaxFuel
	return nil
}

func ruleInvalid(rule tollgate.Citation, param, format string, args ...any) error {
	return &tollgate.Error{Code: tollgate.CodeRuleInvalid, Param: param, Rule: &rule, Message: fmt.Sprintf(format, args...)}
}

// listRules lists what the organization has published, by name and version.
func (s *Server) listRules(c *call) (*answer, error) {
	name := ""
	return listBy(s, c, "asc", func(r *input.Query) { name = r.ID("name") }, func(after string, limit int) ([]tollgate.Rule, string, error) {
		return c.store.Rules(c.ctx, c.caller(http.StatusOK), name, after, limit)
	})
}

// ruleAnswer is a rule with its golden cases.
type ruleAnswer struct {
	tollgate.Rule
	Golden jsontext.Value `json:"golden"`
}

// rule reads the rule that a path names.
func (s *Server) rule(c *call) (*tollgate.Rule, []byte, error) {
	cited, ok := tollgate.ParseRuleID(c.pathID())
	if !ok {
		return nil, nil, tollgate.NotFound()
	}
	return c.store.Rule(c.ctx, c.caller(http.StatusOK), cited)
}

func (s *Server) getRule(c *call) (*answer, error) {
	rule, golden, err := s.rule(c)
	if err != nil {
		return nil, err
	}
	return object(ruleAnswer{*rule, golden})
}

// getModule answers with the bytes, which never change.
func (s *Server) getModule(c *call) (*answer, error) {
	rule, _, err := s.rule(c)
	if err != nil {
		return nil, err
	}
	return c.tagged(`"`+rule.SHA256+`"`, func() (*answer, error) {
		module, err := c.store.Module(c.ctx, c.org, tollgate.RuleRef{Rule: rule.Rule, SHA256: rule.SHA256})
		return &answer{status: http.StatusOK, body: module, media: mediaWasm}, err
	})
}
