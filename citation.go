package tollgate

import (
	"fmt"
	"strconv"
	"strings"
)

// Citation names one immutable version of a pricing rule,
// "rule:<rule_name>@v<rule_version>" (spec §2, §9).
type Citation struct {
	Name    string // [a-z][a-z0-9_]{0,47}
	Version int    // 1…999999
}

// ParseCitation reads the form that String prints and no other.
func ParseCitation(s string) (Citation, error) {
	rest, ok := strings.CutPrefix(s, "rule:")
	name, version, cut := strings.Cut(rest, "@v")
	n, err := strconv.Atoi(version)
	if !ok || !cut || err != nil || !ruleName(name) || n < 1 || n > 999_999 || strconv.Itoa(n) != version {
		return Citation{}, fmt.Errorf("%s is not a rule citation of the form rule:name@v1", quoted(s))
	}
	return Citation{name, n}, nil
}

// ParseRule reads a citation, or the name of a rule alone: a citation without a
// version.
func ParseRule(s string) (Citation, error) {
	if ruleName(s) {
		return Citation{Name: s}, nil
	}
	return ParseCitation(s)
}

func ruleName(s string) bool {
	if len(s) == 0 || len(s) > 48 || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return true
}

func (c Citation) String() string { return "rule:" + c.Name + "@v" + strconv.Itoa(c.Version) }

// named is the citation, or the name of one without a version.
func (c Citation) named() string {
	if c.Version == 0 {
		return "rule named " + c.Name
	}
	return c.String()
}

// MarshalText and UnmarshalText make a citation a JSON string.
func (c Citation) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText is ParseCitation.
func (c *Citation) UnmarshalText(text []byte) (err error) {
	*c, err = ParseCitation(string(text))
	return err
}
