"""Searches for a linear policy for CartPole with the cross-entropy method and DI-engine's events.

On one machine, `python3 search.py` is one process. A job has one process in each of its pods. Node
0 keeps the current policy. In each generation it asks all processes to try policies near it, waits
for their answers, and continues from the best ones. A process that joins later takes part from the
next generation on, and node 0 does not wait for one that has left. Node 0 saves its state in
best.json, and resumes from it after a loss.
"""

import json
import os
import time
from pathlib import Path

import gym
import numpy as np
from ding.framework import Parallel, task
from ding.framework.context import OnlineRLContext

TARGET = float(os.environ.get("TARGET", "475"))  # mean return over 20 episodes; 500 is the most
TRIES = 4  # policies that each process tries in a generation
PATIENCE = 5.0  # seconds that a generation waits for slow or lost processes
BEST = Path(os.environ.get("OUT", "."), "best.json")


def episode(env, policy):
    """Return the return of one episode: push right if the weighted observation is positive."""
    observation, total, done = env.reset(), 0.0, False
    while not done:
        observation, reward, done, _ = env.step(int(observation @ policy > 0))
        total += reward
    return total


def main():
    with task.start(async_mode=False, ctx=OnlineRLContext()):
        node = task.router.node_id
        env = gym.make("CartPole-v1")
        dice = np.random.default_rng(node + int(time.time()))
        answers, question = {}, {}

        def tries(asked):
            """Return policies near the mean, each with its mean return over three episodes."""
            near = dice.normal(asked["mean"], asked["spread"], (TRIES, 4))
            return [(np.mean([episode(env, one) for _ in range(3)]), one.tolist()) for one in near]

        def heard(answer):
            answers[answer["node"]] = {**answer, "heard": time.monotonic()}

        if node:
            # A slow process answers only the newest question and skips older ones.
            task.on("question", question.update)
            answered = None
            while not task.finish:
                newest = dict(question)
                if newest and newest["generation"] != answered:
                    answered = newest["generation"]
                    answer = {"node": node, "generation": answered, "tried": tries(newest)}
                    task.emit("answer", answer, only_remote=True)
                time.sleep(0.01)
            return
        task.on("answer", heard)
        known = json.loads(BEST.read_text()) if BEST.exists() else START
        print(f"begins after generation {known['generation']}")
        while known["return"] < TARGET:
            known = generation(known, env, tries, answers)
            BEST.write_text(json.dumps(known))
        print(f"the target of {TARGET:g} is reached: best.json has the policy")
        task.finish = True


START = {"generation": 0, "mean": [0.0] * 4, "spread": [1.0] * 4, "return": 0.0}


def generation(known, env, tries, answers):
    """Run one generation: ask all processes, try some policies here, and fit the best fifth."""
    number, begin = known["generation"], time.monotonic()
    task.emit("question", known, only_remote=True)
    mine = tries(known)
    # Wait only for processes that have answered lately, even if it was an older question.
    lately = [node for node, one in dict(answers).items() if begin - one["heard"] < 2 * PATIENCE]
    while time.monotonic() - begin < PATIENCE:
        if all(answers[node]["generation"] >= number for node in lately):
            break
        time.sleep(0.01)
    told = [one["tried"] for one in dict(answers).values() if one["generation"] == number]
    tried = sorted(sum(told, mine), reverse=True)
    best = np.array([policy for _, policy in tried[: max(2, len(tried) // 5)]])
    # Only the direction of a policy's vector matters. Scaled to length 1, a spread of 0.2 is always
    # large enough to leave a policy that fails. A longer vector could hardly change direction.
    length = np.linalg.norm(best.mean(axis=0))
    mean, spread = best.mean(axis=0) / length, best.std(axis=0) / length + 0.2
    found = float(np.mean([episode(env, mean) for _ in range(20)]))
    print(f"generation {number + 1}: return {found:.0f}, by {1 + len(told)} processes")
    known = {"generation": number + 1, "mean": mean.tolist(), "spread": spread.tolist()}
    return {**known, "return": found}


if __name__ == "__main__":
    Parallel.runner(n_parallel_workers=1, topology="mesh")(main)
