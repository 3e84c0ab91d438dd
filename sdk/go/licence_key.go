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

// isSeparator says whether a character does not count in a licence key. Besides the punctuation these are modifier minus, hyphen
// bullet, superscript, subscript, minus sign and heavy minus.
func isSeparator(character rune) bool {
	return isUnseen(character) || unicode.Is(unicode.Pd, character) ||
		strings.ContainsRune("\u02D7\u2043\u207B\u208B\u2212\u2796", character)
}

var keyPattern = regexp.MustCompile(`^[0-9A-TV-Z]{25}$`)

// readLicenceKey converts a licence key as somebody typed, copied or printed it to its characters, without separators. Case does
// not count, and the letters that Crockford's base 32 does not have are the digits that they resemble. It is empty if the text
// cannot be a licence key.
func readLicenceKey(text string) string {
	key := strings.Map(func(character rune) rune {
		switch {
		case isSeparator(character):
			return -1
		case character >= 'a' && character <= 'z':
			character -= 'a' - 'A'
		}
		switch character {
		case 'O':
			return '0'
		case 'I', 'L':
			return '1'
		}
		return character
	}, text)
	if !keyPattern.MatchString(key) {
		return ""
	}
	return key
}

// isSameKey: the service reads all forms of a licence key as one.
func isSameKey(one, other string) bool {
	key := readLicenceKey(one)
	return one == other || (key != "" && key == readLicenceKey(other))
}

// trimUnseen removes blanks, line breaks and invisible characters at both ends: legacy keys are compared and stored like that.
func trimUnseen(text string) string {
	return strings.TrimFunc(text, isUnseen)
}
