package main

import (
	"debug/buildinfo"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// bill is a bill of materials in CycloneDX 1.6, as far as a Go program has one.
type bill struct {
	Format       string       `json:"bomFormat"`
	SpecVersion  string       `json:"specVersion"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl"`
	Properties []property `json:"properties,omitempty"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn"`
}

// billOf lists what a program is made of, as the linker has noted it in the program
// itself (`go version -m`).
func billOf(program, version string, at time.Time) ([]byte, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, err
	}
	self := component{Type: "application", Ref: "pkg:golang/tollgate@" + version, Name: "tollgate", Version: version, PURL: "pkg:golang/tollgate@" + version}
	b := bill{
		Format: "CycloneDX", SpecVersion: "1.6", Version: 1, Metadata: metadata{at.Format(time.RFC3339), self},
		Components: []component{library("stdlib", strings.TrimPrefix(info.GoVersion, "go"), "")},
	}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		if m.Sum == "" {
			return nil, fmt.Errorf("%s has no checksum", m.Path)
		}
		b.Components = append(b.Components, library(m.Path, m.Version, m.Sum))
	}
	of := dependency{Ref: self.Ref}
	for _, c := range b.Components {
		of.DependsOn = append(of.DependsOn, c.Ref)
	}
	b.Dependencies = []dependency{of}
	return json.Marshal(b, json.Deterministic(true), jsontext.WithIndent("  "))
}

func library(path, version, sum string) component {
	c := component{Type: "library", Name: path, Version: version, PURL: "pkg:golang/" + path + "@" + version}
	if c.Ref = c.PURL; sum != "" {
		c.Properties = []property{{"go.sum", sum}}
	}
	return c
}
