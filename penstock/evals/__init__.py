"""Evaluate agents: cases, scorers, durable runs and their reports."""

from penstock.evals.case import Answered, AttemptScorer, Case, Score
from penstock.evals.dataset import Dataset
from penstock.evals.report import Attempt, Grade, Rate, Report
from penstock.evals.run import evaluate, evaluate_sync
from penstock.evals.scorers import (
    CalledTool,
    Contains,
    Equal,
    Judge,
    Matches,
    MaxCost,
    MaxSeconds,
    MaxTurns,
)

__all__ = [
    "Answered",
    "Attempt",
    "AttemptScorer",
    "CalledTool",
    "Case",
    "Contains",
    "Dataset",
    "Equal",
    "Grade",
    "Judge",
    "Matches",
    "MaxCost",
    "MaxSeconds",
    "MaxTurns",
    "Rate",
    "Report",
    "Score",
    "evaluate",
    "evaluate_sync",
]
