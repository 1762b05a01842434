//! Generated Cap'n Proto code; how it was made stands in `../schema/shared.capnp`.
#![expect(
    missing_docs,
    clippy::unwrap_used,
    reason = "generated code, kept as the generator writes it"
)]

#[rustfmt::skip]
pub mod application_capnp;
#[rustfmt::skip]
pub mod profile_capnp;
#[rustfmt::skip]
pub mod shared_capnp;
