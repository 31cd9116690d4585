-- ARGV: keep (ms); cost, used, token, lease (us), concurrency in one string;
-- names; "h"; "r:<id>"; "w:<name>" of each window; then rate and burst of each in
-- one string. Returns 0, or {verdict, window from 1, wait in us}. A wait of 0
-- means that no time can be named.
local keep, id, n = ARGV[1], ARGV[5], (#ARGV - 5) / 2
if #ARGV[2] ~= 40 then return { 6, 0, 0 } end
local cost, used, _, lease, cap = unpick('>ddddd', ARGV[2])
if not (ok(cost, 1) and ok(used, 0) and ok(lease, 1) and ok(cap, 0)) then return { 6, 0, 0 } end

local v = call('HMGET', H, unpack(ARGV, 4, 5 + n))
local charged, due, fade, set = head(v[1])
if now >= due or now >= fade then
  tend(keep, charged, due, fade, set)
  v = call('HMGET', H, unpack(ARGV, 4, 5 + n))
  charged, due, fade, set = head(v[1])
end

if v[2] then
  if string.byte(v[2]) ~= 76 then return { 2, 0, 0 } end
  if string.sub(v[2], 18, 25) == string.sub(ARGV[2], 17, 24) then return 0 end -- our own call, made again
  return { 1, 0, 0 }
end

local out, wait, which, changed = {}, 0, 0, false
for k = 1, n do
  local rate, burst = unpick('>dd', ARGV[5 + n + k])
  if not (ok(rate, 0) and ok(burst, 0)) then return { 6, k, 0 } end
  if cost > burst then return { 5, k, 0 } end
  local s, a, r = drain(v[2 + k])
  if r ~= rate then changed = true end
  out[2 * k - 1], out[2 * k] = ARGV[5 + k], pack('>ddd', s + cost, a, rate)
  local lack = cost - (burst - s)
  if lack > 0 and wait >= 0 then
    local d = -1
    if rate > 0 then
      d = math.min(math.ceil((lack + (s + cost) * 8.9e-16) / rate * 1000000) + 1, 86400000000)
    end
    if d < 0 or d > wait then wait, which = d, k end
  end
end
local verdict = 0
if wait ~= 0 then
  verdict = 3
elseif cap > 0 then
  local from = '-inf'
  if due <= now then from = now + 1 end
  if call('ZCOUNT', Z, from, '4e15') >= cap then verdict, wait = 4, 1000000 end
end
if verdict ~= 0 then
  if changed then -- what drains from now on drains at the new rates
    for k = 1, n do
      local s, a = drain(v[2 + k])
      out[2 * k] = pack('>dd', s, a) .. string.sub(ARGV[5 + n + k], 1, 8)
    end
    call('HSET', H, 'h', pack('>dddd', charged, due, fade, now), unpack(out))
    call('PEXPIRE', H, keep)
    call('PEXPIRE', Z, keep)
  end
  return { verdict, which, math.max(wait, 0) }
end

out[#out + 1] = id
out[#out + 1] = 'L' .. string.sub(ARGV[2], 1, 24) .. ARGV[3]
local ends = now + lease
call('ZADD', Z, ends, id)
if ends < due or now - set > 600000000 then
  out[#out + 1] = 'h'
  out[#out + 1] = pack('>dddd', charged, math.min(due, ends), fade, now)
  call('PEXPIRE', Z, keep)
  call('HSET', H, unpack(out))
  call('PEXPIRE', H, keep)
else
  call('HSET', H, unpack(out))
end
return 0
