# Steps of a tile program, shared by applications and profiles (target/ipu21.md §7.2).
#
# The Rust code in ../wire was made with the compiler's Rust plug-in, version 0.25:
#   capnp compile -orust:../wire --src-prefix=. shared.capnp application.capnp profile.capnp
#   sed -i "s/crate::\(application\|shared\|profile\)_capnp/crate::package::wire::\1_capnp/g" ../wire/*.rs
@0xf3c4b874bcfe20c9;

enum StepKind {
  exchange @0;
  compute @1;
  synchronization @2;
  idle @3;
}

enum ActivityKind {
  send @0;
  receive @1;
  partnerBusy @2;
}

struct Metadata {
  name @0 :Text;
  value @1 :Text;
}

struct ExchangeActivity {
  kind @0 :ActivityKind;
  startCycle @1 :UInt32;
  endCycle @2 :UInt32;
}

struct Step {
  localIndex @0 :UInt32;
  phase @1 :UInt32;
  epoch @2 :UInt32;
  operation @3 :Text;
  kind @4 :StepKind;
  kernel @5 :Text;
  metadata @6 :List(Metadata);
  exchangeActivities @7 :List(ExchangeActivity);
  exchangeEventCycles @8 :UInt32;
}
