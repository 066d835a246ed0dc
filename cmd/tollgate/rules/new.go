package rules

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
)

// templates has a folder for each language that a rule can be written in, and
// beside them the files that all, or all but tables, have.
//
//go:embed templates
var templates embed.FS

var languages = []string{"table", "c", "rust", "assemblyscript"}

func ruleNewCommand(a *cli.App) *cobra.Command {
	language, refund := "", false
	c := &cobra.Command{
		Use:   "new NAME",
		Short: "Begin a rule: source, golden cases, how to build it",
		Long: `Make the directory NAME with a rule that can be built and tested at once. The last
element of NAME is the rule's name: lower-case letters, digits and underscores.

A table needs no compiler. The other languages reach the same interface, ABI
tollgate:rule/1, with the compiler that the directory's README.md names.

With --refund the rule takes part in refunds: it charges them too.`,
		Example: `  tollgate rule new my_fee
  tollgate rule new rules/my_fee --lang rust
  tollgate rule new my_fee --refund`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir := filepath.Clean(args[0])
			name := filepath.Base(dir)
			if _, err := tollgate.ParseCitation("rule:" + name + "@v1"); err != nil {
				return cli.UsageError(fmt.Errorf("%q is not a rule's name: 1 to 48 lower-case letters, digits and underscores, a letter first", name))
			}
			files, err := scaffold(name, language, refund)
			if err != nil {
				return cli.UsageError(err)
			}
			if err := writeDirectory(dir, files); err != nil {
				return cli.UsageError(err)
			}
			text := &cli.Table{}
			for _, f := range files {
				text.Row("wrote", filepath.Join(dir, f.name))
			}
			if err := a.Print(text); err != nil {
				return err
			}
			next := []string{a.Program + " rule build " + dir, a.Program + " rule test " + dir}
			if language != "table" {
				next = []string{"make -C " + dir + " TOLLGATE=" + absoluteProgram(a)}
			}
			if language == "assemblyscript" {
				next = slices.Insert(next, 0, "npm install --prefix "+dir)
			}
			_, err = fmt.Fprintf(a.Stdout, "\nNext:\n\n  %s\n", strings.Join(next, "\n  "))
			return err
		},
	}
	c.Flags().StringVar(&language, "lang", "table", strings.Join(languages, ", "))
	c.Flags().BoolVar(&refund, "refund", false, "a rule that takes part in refunds")
	_ = c.RegisterFlagCompletionFunc("lang", cobra.FixedCompletions(languages, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// absoluteProgram is how a Makefile in another directory calls this program.
func absoluteProgram(a *cli.App) string {
	if !strings.ContainsRune(a.Program, filepath.Separator) {
		return a.Program
	}
	if absolute, err := filepath.Abs(a.Program); err == nil {
		return absolute
	}
	return a.Program
}

type newFile struct {
	name string
	text []byte
}

// scaffold makes a rule's files from the templates of a language.
func scaffold(name, language string, refund bool) ([]newFile, error) {
	if !slices.Contains(languages, language) {
		return nil, fmt.Errorf("--lang is one of %s", strings.Join(languages, ", "))
	}
	label := strings.ReplaceAll(name, "_", " ")
	label = strings.ToUpper(label[:1]) + label[1:]
	about := map[string]string{"Name": name, "Label": label, "Refund": ""}
	if refund {
		about["Refund"] = "yes" // the rule takes part in refunds
	}
	sources := map[string]string{"golden.json": "golden.json.tmpl"}
	if language != "table" {
		sources["rule.toml"], sources[".gitignore"] = "package.toml.tmpl", "gitignore.tmpl"
	}
	own, err := fs.Glob(templates, "templates/"+language+"/*.tmpl")
	if err != nil {
		return nil, err
	}
	for _, file := range own {
		base := path.Base(file)
		sources[strings.TrimSuffix(base, ".tmpl")] = language + "/" + base
	}
	var files []newFile
	for to, from := range sources {
		source, err := templates.ReadFile("templates/" + from)
		if err != nil {
			return nil, err
		}
		text, err := cli.Fill(string(source), about)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", from, err)
		}
		files = append(files, newFile{to, []byte(text)})
	}
	slices.SortFunc(files, func(a, b newFile) int { return strings.Compare(a.name, b.name) })
	return files, nil
}

// writeDirectory makes a directory with files. What is there already is left alone,
// and a directory that holds anything is refused.
func writeDirectory(dir string, files []newFile) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	there, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(there) > 0 {
		return fmt.Errorf("%s is not empty", dir)
	}
	for _, f := range files {
		to, err := os.OpenFile(filepath.Join(dir, f.name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		_, err = to.Write(f.text)
		if err := errors.Join(err, to.Close()); err != nil {
			return err
		}
	}
	return nil
}
