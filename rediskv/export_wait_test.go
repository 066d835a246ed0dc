package rediskv

// Unwaited is for tests.
func Unwaited() []string { return unwaited }
