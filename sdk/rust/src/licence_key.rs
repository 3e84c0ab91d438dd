//! Licence keys and legacy keys, as somebody typed, copied or printed them.

/// A blank, a control character (but not NUL, which cannot be stored), or a character that is not shown.
fn is_unseen(c: char) -> bool {
    matches!(c, '\u{1}'..='\u{1F}' | '\u{7F}'..='\u{9F}' | '\u{2800}') || c.is_whitespace() || is_ignorable(c)
}

/// Unicode's `Default_Ignorable_Code_Point`.
fn is_ignorable(c: char) -> bool {
    matches!(c, '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{115F}'..='\u{1160}' | '\u{17B4}'..='\u{17B5}'
        | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}'
        | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFA0}' | '\u{FFF0}'..='\u{FFF8}'
        | '\u{1BCA0}'..='\u{1BCA3}' | '\u{1D173}'..='\u{1D17A}' | '\u{E0000}'..='\u{E0FFF}')
}

/// Unicode's `Dash_Punctuation`, and modifier minus, hyphen bullet, superscript, subscript, minus sign and heavy minus.
fn is_dash(c: char) -> bool {
    matches!(c, '-' | '\u{58A}' | '\u{5BE}' | '\u{1400}' | '\u{1806}' | '\u{2010}'..='\u{2015}' | '\u{2E17}'
        | '\u{2E1A}' | '\u{2E3A}'..='\u{2E3B}' | '\u{2E40}' | '\u{2E5D}' | '\u{301C}' | '\u{3030}' | '\u{30A0}'
        | '\u{FE31}'..='\u{FE32}' | '\u{FE58}' | '\u{FE63}' | '\u{FF0D}' | '\u{10D6E}' | '\u{10EAD}'
        | '\u{2D7}' | '\u{2043}' | '\u{207B}' | '\u{208B}' | '\u{2212}' | '\u{2796}')
}

/// The 25 characters of a licence key in the form in which it was issued, without its hyphens. Case and separators do not
/// count, and the letters that Crockford's base 32 does not have are the digits that they resemble.
fn characters_of(key: &str) -> Option<String> {
    let plain: String = key
        .chars()
        .filter(|c| !is_unseen(*c) && !is_dash(*c))
        .map(|c| match c.to_ascii_uppercase() {
            'O' => '0',
            'I' | 'L' => '1',
            other => other,
        })
        .collect();
    let is_key = plain.len() == 25 && plain.chars().all(|c| c.is_ascii_alphanumeric() && c != 'U');
    is_key.then_some(plain)
}

/// Whether two texts are one licence key: the service reads all forms of a key as one.
pub(crate) fn is_same_key(one: &str, other: &str) -> bool {
    let key = characters_of(one);
    one == other || (key.is_some() && key == characters_of(other))
}

/// A text without blanks, line breaks and invisible characters at both ends: legacy keys are compared and stored like that.
pub(crate) fn trim_unseen(text: &str) -> &str {
    text.trim_matches(is_unseen)
}
