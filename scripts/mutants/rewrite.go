package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/printer"
	"go/token"
	"path/filepath"
)

// mutant is one change of the code. Its name says which, wherever it stands in its file.
type mutant struct {
	number int
	name   string // "assertion.go verifyAssertion: !ok → false"
	place  string // file and line
}

// Environment variables: one switches a mutant on, the other names a file for the numbers
// of those that would have changed something.
const (
	variable = "TOLLGATE_MUTANT"
	metFile  = "TOLLGATE_MUTANTS_MET"
)

// switches is what each package gets beside its files.
const switches = `package %s

import (
	"fmt"
	"os"
	"strconv"
	"sync"
)

var mutantNow = func() int {
	n, err := strconv.Atoi(os.Getenv("` + variable + `"))
	if err != nil {
		return -1
	}
	return n
}()

// mutantsMet is where the numbers of mutants go that would change a value, once each.
var (
	mutantsMet, _ = os.OpenFile(os.Getenv("` + metFile + `"), os.O_APPEND|os.O_WRONLY, 0)
	mutantsSeen   sync.Map
)

// mutantTo is v, unless the mutant is on.
func mutantTo(n int, v, mutated bool) bool {
	if mutantsMet != nil && v != mutated {
		if _, seen := mutantsSeen.LoadOrStore(n, true); !seen {
			fmt.Fprintln(mutantsMet, n)
		}
	}
	if n == mutantNow {
		return mutated
	}
	return v
}
`

// rewriter puts switches into one file.
type rewriter struct {
	set    *token.FileSet
	file   string
	within string // the function
	next   int
	found  []mutant
	count  map[string]int
}

// rewrite is a file with a switch in each of its checks; mutants are numbered from first.
func rewrite(path string, first int) (source []byte, pkg string, found []mutant, err error) {
	r := &rewriter{set: token.NewFileSet(), file: filepath.Base(path), next: first, count: make(map[string]int)}
	file, err := parser.ParseFile(r.set, path, nil, 0)
	if err != nil {
		return nil, "", nil, err
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
			r.within = f.Name.Name
			r.function(f.Body)
		}
	}
	var text bytes.Buffer
	if err := format.Node(&text, r.set, file); err != nil {
		return nil, "", nil, err
	}
	return text.Bytes(), file.Name.Name, r.found, nil
}

// function switches the conditions of a body: those of if and of a switch without a tag,
// and what is returned of comparisons.
func (r *rewriter) function(body ast.Node) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			n.Cond = r.condition(n.Cond)
		case *ast.SwitchStmt:
			if n.Tag != nil {
				break
			}
			for _, clause := range n.Body.List {
				c := clause.(*ast.CaseClause)
				for i := range c.List {
					c.List[i] = r.condition(c.List[i])
				}
			}
		case *ast.ReturnStmt:
			for i, e := range n.Results {
				if b, ok := e.(*ast.BinaryExpr); ok && logical(b.Op) {
					n.Results[i] = r.condition(e)
				}
			}
		}
		return true
	})
}

// logical are operators whose result is true or false.
func logical(op token.Token) bool {
	switch op {
	case token.LAND, token.LOR, token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ:
		return true
	}
	return false
}

// condition switches a whole condition to true and to false, and each of its parts to what
// leaves the others to decide.
func (r *rewriter) condition(e ast.Expr) ast.Expr {
	text := r.text(e)
	e = r.parts(e)
	return r.switched(r.switched(e, text, false), text, true)
}

// parts switches what a condition is made of.
func (r *rewriter) parts(e ast.Expr) ast.Expr {
	switch e := e.(type) {
	case *ast.ParenExpr:
		e.X = r.parts(e.X)
	case *ast.UnaryExpr:
		if e.Op == token.NOT {
			e.X = r.parts(e.X)
		}
	case *ast.BinaryExpr:
		switch e.Op {
		case token.LAND, token.LOR:
			left, right := r.text(e.X), r.text(e.Y)
			e.X = r.switched(r.parts(e.X), left, e.Op == token.LAND)
			e.Y = r.switched(r.parts(e.Y), right, e.Op == token.LAND)
		case token.LSS, token.LEQ, token.GTR, token.GEQ:
			return r.bound(e)
		}
	}
	return e
}

// bound moves the bound of a comparison by one: < becomes <=, and the other way.
func (r *rewriter) bound(e *ast.BinaryExpr) ast.Expr {
	other := *e
	other.Op = map[token.Token]token.Token{token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR}[e.Op]
	return r.call(e, &other, r.text(e)+" → "+other.Op.String())
}

// switched has a switch to true or false around an expression.
func (r *rewriter) switched(e ast.Expr, text string, to bool) ast.Expr {
	return r.call(e, ast.NewIdent(fmt.Sprint(to)), text+" → "+fmt.Sprint(to))
}

// call is the expression that is one thing or, with the mutant, another.
func (r *rewriter) call(e, mutated ast.Expr, what string) ast.Expr {
	name := r.file + " " + r.within + ": " + what
	if r.count[name]++; r.count[name] > 1 {
		name += fmt.Sprintf(" (%d)", r.count[name])
	}
	r.found = append(r.found, mutant{r.next, name, r.set.Position(e.Pos()).String()})
	number := &ast.BasicLit{Kind: token.INT, Value: fmt.Sprint(r.next)}
	r.next++
	return &ast.CallExpr{Fun: ast.NewIdent("mutantTo"), Args: []ast.Expr{number, e, mutated}}
}

// text is an expression as it is written.
func (r *rewriter) text(e ast.Expr) string {
	var b bytes.Buffer
	if err := printer.Fprint(&b, r.set, e); err != nil {
		return "?"
	}
	return b.String()
}
