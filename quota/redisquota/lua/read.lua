-- Reads v: "h", the reservation, its n windows; and the parts of "h". Ends the
-- leases that nobody renewed in time and forgets the ids whose time is over, a
-- bounded number of each, before that. "late" says that there are more leases to
-- end.
local v, charged, due, fade, set
for pass = 1, 2 do
  v = call('HMGET', H, unpack(ARGV, 4, 5 + n))
  if v[1] then
    charged, due, fade, set = unpick('>dddd', v[1])
  else
    charged, due, fade, set = 0, FAR, now + 1000000, now
    local long = 'keep' .. string.rep('-', 64)
    call('ZADD', Z, '+inf', long)
    call('HSET', H, 'keep', long)
    call('PEXPIRE', H, keep)
    call('PEXPIRE', Z, keep)
  end
  if pass == 2 or (now < due and now < fade) then break end

  local moved, out = {}, {}
  local ids = call('ZRANGEBYSCORE', Z, '-inf', format('%d', now), 'LIMIT', 0, 512)
  for _, m in ipairs(ids) do
    local y = call('HGET', H, m)
    if y and string.sub(y, 1, 1) == 'L' then
      local cost, used = unpick('>dd', y, 2)
      for w in string.gmatch(string.sub(y, 26), '%S+') do moved[w] = (moved[w] or 0) + (used - cost) end
      charged = charged + used
      out[#out + 1] = m
      out[#out + 1] = 'E' .. pack('>dd', used, 0) .. string.sub(y, 18)
    end
    call('ZADD', Z, format('%d', FAR + now + 3600000000), m)
  end
  for w, m in pairs(moved) do
    local x = call('HGET', H, w)
    --include drain
    s = s + m
    if s < 0 then s = 0 end
    out[#out + 1] = w
    out[#out + 1] = pack('>ddd', s, a, r)
  end
  due = now
  if #ids < 512 then
    local first = call('ZRANGE', Z, 0, 0, 'WITHSCORES')
    due = math.min(tonumber(first[2] or FAR), FAR)
  end
  ids = call('ZRANGEBYSCORE', Z, format('%d', FAR), format('%d', FAR + now), 'LIMIT', 0, 1000)
  if #ids > 0 then
    call('HDEL', H, unpack(ids))
    call('ZREM', Z, unpack(ids))
  end
  fade = now
  if #ids < 1000 then fade = now + 1000000 end
  call('HSET', H, 'h', pack('>dddd', charged, due, fade, now), unpack(out))
  call('PEXPIRE', H, keep)
  call('PEXPIRE', Z, keep)
end
local late = due <= now
