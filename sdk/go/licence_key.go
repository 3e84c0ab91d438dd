package licensing

import (
	"regexp"
	"strings"
	"unicode"
)

// isUnseen says whether a character is a blank, a line break or invisible. NUL is not among them: it cannot be stored, and each
// reader of a text refuses it.
func isUnseen(character rune) bool {
	switch {
	case character == 0:
		return false
	case character <= 0x1F, character >= 0x7F && character <= 0x9F, character == 0x2800:
		return true
	case unicode.Is(unicode.White_Space, character):
		return true
	}
	return isDefaultIgnorable(character)
}

// isDefaultIgnorable is Unicode's Default_Ignorable_Code_Point, as DerivedCoreProperties.txt derives it.
func isDefaultIgnorable(character rune) bool {
	isAnnotation := character >= 0xFFF9 && character <= 0xFFFB
	isHieroglyphControl := character >= 0x13430 && character <= 0x13440
	return unicode.In(character, unicode.Other_Default_Ignorable_Code_Point, unicode.Cf, unicode.Variation_Selector) &&
		!isAnnotation && !isHieroglyphControl && !unicode.Is(unicode.Prepended_Concatenation_Mark, character)
}

// trimUnseen removes blanks, line breaks and invisible characters at both ends: legacy keys are compared and stored like that.
func trimUnseen(text string) string {
	return strings.TrimFunc(text, isUnseen)
}

var (
	notInKey  = regexp.MustCompile(`[^0-9A-Za-z]`)
	digitsFor = strings.NewReplacer("O", "0", "I", "1", "L", "1")
)

// isSameKey compares two licence keys. Only letters and digits count, and letters that Crockford's base 32 lacks are the digits that
// they resemble.
func isSameKey(one, other string) bool {
	read := func(key string) string {
		return digitsFor.Replace(strings.ToUpper(notInKey.ReplaceAllString(key, "")))
	}
	return read(one) == read(other)
}
