//! Places where a text may be cut without cutting a character.

/// The last such place at or before `most`.
pub(crate) fn floor(text: &str, most: usize) -> usize {
    let mut at = most.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// The first such place at or after `least`.
pub(crate) fn ceil(text: &str, least: usize) -> usize {
    let mut at = least.min(text.len());
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_is_never_cut() {
        let text = "aé€";
        let places: Vec<_> = (0..8).map(|at| (floor(text, at), ceil(text, at))).collect();
        assert_eq!(places, [(0, 0), (1, 1), (1, 3), (3, 3), (3, 6), (3, 6), (6, 6), (6, 6)]);
    }
}
