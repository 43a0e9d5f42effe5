"""The formats of logs, a module each; they are imported when a log is opened."""
