//! `Edit`: replaces the matched bytes of a text and nothing else.
