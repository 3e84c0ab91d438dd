package licensing

import (
	"bytes"
	"encoding/json"
	"math"
)

// Checks of values from outside, and JSON as the SDKs of other languages write it.

// object is a JSON object, as far as it is read at all.
type object = map[string]any

// parseObject reads a JSON object; nil if the text is not one.
func parseObject(text []byte) object {
	var value any
	if json.Unmarshal(text, &value) != nil {
		return nil
	}
	found, _ := value.(object)
	return found
}

// withoutMark removes the byte order mark that some servers write before a text.
func withoutMark(text []byte) []byte {
	return bytes.TrimPrefix(text, []byte("\uFEFF"))
}

func encodeJSON(value any) string {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(value) != nil {
		return ""
	}
	return string(bytes.TrimSuffix(text.Bytes(), []byte("\n")))
}

// countIn reads a whole number from 0.
func countIn(value any) (int64, bool) {
	number, isNumber := value.(float64)
	isCount := isNumber && number >= 0 && number <= 1<<53-1 && number == math.Trunc(number)
	if !isCount {
		return 0, false
	}
	return int64(number), true
}

// unixTimeIn reads seconds since 1970 UTC, within the range of times of a store, as milliseconds.
func unixTimeIn(value any) (int64, bool) {
	number, isNumber := value.(float64)
	if !isNumber || math.Abs(number) > maxTime/1000 {
		return 0, false
	}
	return int64(number * 1000), true
}

// arrayIn reads an array whose entries are all of one type.
func arrayIn[T any](value any) ([]T, bool) {
	entries, isArray := value.([]any)
	found := make([]T, len(entries))
	for at, entry := range entries {
		of, isOfType := entry.(T)
		if !isOfType {
			return nil, false
		}
		found[at] = of
	}
	return found, isArray
}
