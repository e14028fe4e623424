"""Dialog loop: messages between user and system, rollout of simulated dialogs, and search in the gallery."""
