//! An attacker.
fn main() {
    sandbox_profiles::launch::helper_main_if_asked();
}
