package dev

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"tollgate/cmd/sandbox"
	"tollgate/cmd/tollgate/cli"
)

// write makes of an environment the file that a shell can source, and the private keys beside it,
// whose paths the file has instead of the keys.
func write(env []sandbox.Variable, path string) error {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(absolute), 0o700); err != nil {
		return err
	}
	beside := strings.TrimSuffix(absolute, filepath.Ext(absolute))
	files := map[string]string{"TOLLGATE_CLIENT_JWK": beside + ".client.jwk", "TOLLGATE_RULE_KEY": beside + ".rule.jwk"}
	var b strings.Builder
	for _, v := range env {
		if file, ok := files[v.Name]; ok {
			if err := cli.ReplaceFile(file, []byte(v.Value+"\n")); err != nil {
				return err
			}
			v.Value = file
		}
		fmt.Fprintf(&b, "%s=%s\n", v.Name, cli.ShellQuote(v.Value))
	}
	return cli.ReplaceFile(absolute, []byte(b.String()))
}
