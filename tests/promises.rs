//! Every promise to ChatGPT and to the owner, run against the built programs and the real Claude Code.
