//! The loop from outside, with models that are played and tools that do what a test needs.

mod any_driver;
mod any_model;
mod approval;
mod bounds;
mod calls;
mod events;
mod history;
mod kit;
mod parallel;
mod repeats;
mod replies;
mod transcript;
mod waiting;
