"""Schedules: tasks that start at due times."""
