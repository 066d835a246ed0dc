package main

// redundant are mutants that change nothing that anybody can see, by name, with the reason.
var redundant = map[string]string{}
