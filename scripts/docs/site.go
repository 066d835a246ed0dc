package main

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed assets
var assets embed.FS

// sections are the pages in the order of the menu. A page that is not written yet is
// left out; one that stands in no section comes last.
var sections = []section{
	{Title: "Begin", pages: []string{"start", "concepts", "sandbox"}},
	{Title: "Build", pages: []string{"rules", "perimeters", "agents", "webhooks", "payouts", "errors", "limits"}},
	{Title: "Run", pages: []string{"operations", "alerts", "security", "performance", "durability", "archive", "compatibility"}},
	{Title: "Reference", pages: []string{"api", "cli", "interface", "changelog"}},
	{Title: "Develop", pages: []string{"design", "contributing"}},
}

// section is a part of the menu.
type section struct {
	Title   string
	Entries []entry
	pages   []string
}

// entry leads to a page.
type entry struct {
	Name, Title string
	Here        bool
}

// page is one file of the documentation, or the reference of the API.
type page struct {
	name, title string
	summary     string // for search engines
	body        template.HTML
	headings    []heading
	anchors     map[string]bool
	links       []link
	texts       []textPart // what search finds
	uses        []string
}

// heading stands in the table of contents.
type heading struct {
	ID, Text string
	Level    int
}

// link is one within the documentation, which is looked up once all pages are read.
type link struct{ page, fragment, written string }

// textPart is a part of a page under one heading.
type textPart struct{ anchor, heading, body string }

// render makes all files of the site, by name.
func render(root string) (map[string][]byte, error) {
	pages, err := readPages(root)
	if err != nil {
		return nil, err
	}
	if err := checkLinks(pages); err != nil {
		return nil, err
	}
	layouts, err := layouts()
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{"search.json": searchIndex(pages)}
	for _, p := range pages {
		if files[p.name], err = layOut(layouts, "page.html", view{Page: p.name, Title: p.title, Summary: p.summary, Body: p.body, Contents: p.headings, Sections: menu(pages, p.name)}); err != nil {
			return nil, err
		}
		for _, name := range p.uses {
			if files[name], err = os.ReadFile(filepath.Join(root, "handlers", "docs", name)); err != nil {
				return nil, fmt.Errorf("%s.md: %w", p.name, err)
			}
		}
	}
	for _, name := range []string{"landing", "missing"} {
		if files[name], err = layOut(layouts, name+".html", view{Page: name, Title: "Tollgate", Sections: menu(pages, "")}); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{"style.css", "pages.js", "icon.svg"} {
		if files[name], err = assets.ReadFile("assets/" + name); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// view is what a layout shows.
type view struct {
	Page, Title, Summary string
	Body                 template.HTML
	Contents             []heading
	Sections             []section
}

// Room is where the front page says how the process is: front.go of the service fills
// it in.
func (view) Room() template.HTML { return "<!-- how it is -->" }

func layouts() (*template.Template, error) {
	return template.New("").Funcs(template.FuncMap{"inline": inline}).ParseFS(assets, "assets/*.html")
}

func layOut(layouts *template.Template, name string, v view) ([]byte, error) {
	var b bytes.Buffer
	if err := layouts.ExecuteTemplate(&b, name, v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// readPages reads every page, in the order of the menu.
func readPages(root string) ([]*page, error) {
	names, err := filepath.Glob(filepath.Join(root, "handlers", "docs", "*.md"))
	if err != nil {
		return nil, err
	}
	found := map[string]*page{}
	for _, name := range names {
		source, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		p, err := readPage(root, strings.TrimSuffix(filepath.Base(name), ".md"), source)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		found[p.name] = p
	}
	document, err := os.ReadFile(filepath.Join(root, "handlers", "openapi.json"))
	if err != nil {
		return nil, err
	}
	if found["api"] != nil {
		return nil, errors.New("api.md: the reference of the API has this name")
	}
	if found["api"], err = readAPI(document, found["errors"] != nil); err != nil {
		return nil, fmt.Errorf("openapi.json: %w", err)
	}
	var pages []*page
	for _, s := range sections {
		for _, name := range s.pages {
			if p := found[name]; p != nil {
				pages = append(pages, p)
				delete(found, name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		pages = append(pages, found[name])
	}
	return pages, nil
}

// menu lists the pages, and marks the one that is shown.
func menu(pages []*page, here string) (all []section) {
	rest := slices.Clone(pages)
	take := func(s section, wanted func(*page) bool) {
		rest = slices.DeleteFunc(rest, func(p *page) bool {
			if wanted(p) {
				s.Entries = append(s.Entries, entry{p.name, p.title, p.name == here})
				return true
			}
			return false
		})
		if len(s.Entries) > 0 {
			all = append(all, s)
		}
	}
	for _, s := range sections {
		take(s, func(p *page) bool { return slices.Contains(s.pages, p.name) })
	}
	take(section{Title: "More"}, func(*page) bool { return true })
	return all
}

// checkLinks refuses a link to a page or a heading that is not there.
func checkLinks(pages []*page) error {
	byName := map[string]*page{}
	for _, p := range pages {
		byName[p.name] = p
	}
	var dead []error
	for _, p := range pages {
		for _, l := range p.links {
			to := byName[l.page]
			switch {
			case to == nil:
				dead = append(dead, fmt.Errorf("%s links to %s: there is no page %s", p.name, l.written, l.page))
			case l.fragment != "" && !to.anchors[l.fragment]:
				dead = append(dead, fmt.Errorf("%s links to %s: the page %s has no heading #%s", p.name, l.written, l.page, l.fragment))
			}
		}
	}
	return errors.Join(dead...)
}
