"""The DIJob operator: one DIJob becomes N pods that form one DI-engine world."""

__version__ = "0.2.0-dev"
