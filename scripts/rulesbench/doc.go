// Package rulesbench measures one pricing rule in the engine of package wasm,
// in native Go and in the languages that others use for policies. It is a
// module of its own: the service depends on none of them.
package rulesbench
