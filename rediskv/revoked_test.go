package rediskv_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv/checks"
	"tollgate/rediskv/consistency"
	"tollgate/rediskv/record"
)

// revoke revokes a token of the caller's grant that lives for a while longer.
func (f *fixture) revoke(t testing.TB, token string, lives time.Duration) error {
	t.Helper()
	return f.RevokeToken(t.Context(), f.issue(f.NewID("")), token, f.Clock.Now().Add(lives))
}

// reads says what a token of the caller's grant gets from a script, and beside reads
// that are none.
func (f *fixture) reads(t testing.TB, token string) (script, beside error) {
	t.Helper()
	c := f.Caller
	c.Token = token
	_, _, script = f.ReadResource(t.Context(), c, "organization", c.Organization)
	_, _, beside = f.AccessIDs(t.Context(), c)
	return script, beside
}

// One token ends, and no other of its grant. Those that have expired leave the list.
func TestRevokedTokens(t *testing.T) {
	f := newFixture(t)
	raw, _ := f.raw(t)
	key := f.Space(f.Caller.Organization).Object(f.Caller.Actor.GrantID)
	must(t, f.revoke(t, "tok_1", time.Minute))
	must(t, f.revoke(t, "tok_2", 10*time.Minute))
	must(t, f.revoke(t, "tok_2", 10*time.Minute)) // again: it stands once
	for token, ended := range map[string]bool{"tok_1": true, "tok_2": true, "tok_3": false, "tok": false, "tok_11": false, "": false} {
		script, beside := f.reads(t, token)
		g, err := f.Grant(t.Context(), f.Caller.Organization, f.Caller.Actor.GrantID)
		must(t, err)
		for where, err := range map[string]error{"a script": script, "beside": beside} {
			if (code(err) == string(tollgate.CodeTokenInvalid)) != ended {
				t.Errorf("%q, %s: %v", token, where, err)
			}
		}
		if g.Revoked[token] != ended {
			t.Errorf("%q: %v", token, g.Revoked)
		}
	}
	if got := raw.HGet(t.Context(), key, "revoked").Val(); strings.Count(got, "tok_") != 2 {
		t.Errorf("the list is %q", got)
	}
	f.Clock.Advance(3 * time.Minute)
	must(t, f.revoke(t, "tok_3", 10*time.Minute))
	if got := raw.HGet(t.Context(), key, "revoked").Val(); strings.Contains(got, "tok_1:") || !strings.Contains(got, "tok_2:") || !strings.Contains(got, "tok_3:") {
		t.Errorf("behind the first one's time the list is %q", got)
	}
	f.audit(t)
}

// One more than a grant remembers ends all of its tokens.
func TestTooManyRevokedTokens(t *testing.T) {
	f := newFixture(t)
	raw, _ := f.raw(t)
	key := f.Space(f.Caller.Organization).Object(f.Caller.Actor.GrantID)
	var list []string
	for n := range 999 {
		list = append(list, fmt.Sprintf("tok_%d:%d", n, f.Clock.Now().Add(time.Hour).Unix()))
	}
	text := strings.Join(list, ",")
	must(t, raw.HSet(t.Context(), key, "revoked", text, "revoked=", text).Err())
	must(t, f.revoke(t, "tok_last", time.Minute))
	script, beside := f.reads(t, "tok_other")
	if script != nil || beside != nil {
		t.Errorf("the thousandth: %v, %v", script, beside)
	}
	must(t, f.revoke(t, "tok_more", time.Minute))
	for _, token := range []string{"tok_more", "tok_1", "tok_other"} {
		if script, beside := f.reads(t, token); code(script) != string(tollgate.CodeTokenInvalid) || code(beside) != string(tollgate.CodeTokenInvalid) {
			t.Errorf("%s: %v, %v", token, script, beside)
		}
	}
	fields := raw.HGetAll(t.Context(), key).Val()
	if fields["v"] != "2" || fields["v="] != "2" || fields["revoked"] != "" {
		t.Errorf("the grant is %v", fields)
	}
}

// A token of another version of its grant is dead: the revocation changes nothing, and
// is recorded.
func TestRevokingWhatHasEnded(t *testing.T) {
	f := newFixture(t)
	raw, _ := f.raw(t)
	use := f.issue("one")
	use.GrantVersion = 7
	must(t, f.RevokeToken(t.Context(), use, "tok_1", f.Clock.Now().Add(time.Minute)))
	if there := raw.HExists(t.Context(), f.Space(f.Caller.Organization).Object(f.Caller.Actor.GrantID), "revoked").Val(); there {
		t.Error("the grant has a list")
	}
}

// Whichever bit of the list or of its copy is another one, a check finds it, nothing is
// read under the grant, and nothing is added to the list.
func TestDamagedRevocations(t *testing.T) {
	f := newFixture(t)
	raw, _ := f.raw(t)
	key := f.Space(f.Caller.Organization).Object(f.Caller.Actor.GrantID)
	must(t, f.revoke(t, "tok_1", time.Minute))
	whole := raw.HGet(t.Context(), key, record.Revoked).Val()
	damage := string(tollgate.CodeRecordDamaged)
	for _, name := range []string{record.Revoked, record.Copied(record.Revoked)} {
		bits(whole, func(at int, turned string) {
			f := map[string]string{record.Revoked: whole, record.Copied(record.Revoked): whole}
			f[name] = turned
			if _, err := record.RevokedIn(f); err == nil {
				t.Errorf("nobody notices that byte %d of %s is %q", at, name, turned[at])
			}
		})
		must(t, raw.HSet(t.Context(), key, name, strings.Replace(whole, "tok_1", "tok_3", 1)).Err())
		f.Refresh(f.Caller.Organization)
		script, beside := f.reads(t, "tok_2")
		if code(script) != string(tollgate.CodeTokenInvalid) || code(beside) != string(tollgate.CodeTokenInvalid) {
			t.Errorf("%s: %v, %v", name, script, beside)
		}
		if _, err := f.Grant(t.Context(), f.Caller.Organization, f.Caller.Actor.GrantID); code(err) != damage {
			t.Errorf("%s, the grant: %v", name, err)
		}
		if err := f.revoke(t, "tok_4", time.Minute); code(err) != damage {
			t.Errorf("%s, another one is revoked: %v", name, err)
		}
		found := 0
		must(t, f.CheckKeys(t.Context(), &checks.Walk{Found: func(one checks.Finding) {
			if one.Kind == consistency.FindingDamaged && strings.HasPrefix(one.Message, key+": ") {
				found++
			}
		}}))
		if found != 1 {
			t.Errorf("%s: %d findings", name, found)
		}
		must(t, raw.HSet(t.Context(), key, name, whole).Err())
	}
}

// Assertions and tokens live by real time, however far ahead a sandbox is.
func TestRevokedInASandboxThatIsAhead(t *testing.T) {
	f := newFixture(t)
	raw, _ := f.raw(t)
	wall := f.Clock.Now().Add(-26 * time.Hour)
	for _, token := range []string{"tok_1", "tok_2"} {
		use := f.issue(token)
		use.Now, use.Expires = wall, wall.Add(5*time.Minute)
		must(t, f.RevokeToken(t.Context(), use, token, wall.Add(10*time.Minute)))
		k := f.Space(f.Caller.Organization)
		if kept := raw.PTTL(t.Context(), k.Assertion(f.Caller.Actor.ClientID, token)).Val(); kept < 5*time.Minute {
			t.Errorf("the assertion may be used again after %s", kept)
		}
	}
	if g, err := f.Grant(t.Context(), f.Caller.Organization, f.Caller.Actor.GrantID); err != nil || !g.Revoked["tok_1"] || !g.Revoked["tok_2"] {
		t.Errorf("%+v, %v", g, err)
	}
}
