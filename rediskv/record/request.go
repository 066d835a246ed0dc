package record

import "strings"

// Request puts an envelope in front of the record of a request that is to be at a key.
func Request(key, text string) (record, envelope string) {
	envelope = enveloped(rowSum(key, text), -1) + "/"
	return envelope + text, envelope
}

// CheckRequest reports that the record of a request is not what was written at a key.
func CheckRequest(key, text string) error {
	line, _, _ := strings.Cut(text, "\n")
	envelope, _, ok := strings.Cut(line, "/")
	if !ok || strings.Contains(envelope, " ") {
		if strings.Contains(text[:min(len(text), len(begin)+digits)], ";;") {
			return errName
		}
		return nil // of before
	}
	found, err := sumIn(envelope)
	if err == nil && found != "" && !is(rowSum(key, text[len(envelope)+1:]), found) {
		return errSum
	}
	return err
}
