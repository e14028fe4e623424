"""The loop: messages between a user and a system, the rollout of simulated dialogs, and the gallery that is searched."""
